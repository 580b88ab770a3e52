#include "client/launch/launch_plan.h"

#include <gtest/gtest.h>

#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

DeviceFacts Hopper() {
  DeviceFacts device;
  device.name = "H200";
  device.architecture = "90";
  device.shared_bytes_max = 227 << 10;
  device.grid_max = {2147483647, 65535, 65535};
  return device;
}

KernelMetadata Metadata(const std::string& patch = "{}") {
  return ParseDescription(MadeDocument("k", {{"x", "*fp32"}, {"n", "i32"}}, patch))->metadata;
}

Status MakeStatus(const KernelMetadata& metadata) {
  return LaunchPlan::Make(metadata, "cuda", Hopper()).status();
}

class LaunchPlanTest : public testing::Test {
 protected:
  StatusOr<DriverLaunch> Resolve(const std::string& patch = "{}") {
    metadata_ = Metadata(patch);
    return LaunchPlan::Make(metadata_, "cuda", Hopper())->Resolve(call_);
  }
  LaunchCall Call() {
    LaunchCall call{};
    Assign(call.grid, {1, 1, 1});
    call.argument_count = 2;
    return call;
  }
  KernelMetadata metadata_;
  LaunchCall call_ = Call();
};

TEST(ArchitectureTest, DeviceRunsKernelsOfCompatibleArchitectures) {
  struct Case {
    const char* backend;
    const char* kernel;
    const char* device;
    bool is_triton;
    bool runs;
  };
  for (const Case& one :
       std::initializer_list<Case>{{"cuda", "80", "80", true, true},
                                   {"cuda", "80", "86", true, true},
                                   {"cuda", "86", "80", true, false},
                                   {"cuda", "80", "90", true, false},
                                   {"cuda", "90", "90", true, true},
                                   {"cuda", "100", "103", true, false},
                                   {"cuda", "100", "103", false, true},
                                   {"cuda", "90a", "90", false, true},
                                   {"cuda", "100f", "103", false, true},
                                   {"cuda", "100f", "120", false, false},
                                   {"cuda", "nonsense", "90", false, false},
                                   {"hip", "gfx942", "gfx942", true, true},
                                   {"hip", "gfx942", "gfx942:sramecc+:xnack-", true, true},
                                   {"hip", "gfx942:xnack-", "gfx942:sramecc+:xnack-", true, true},
                                   {"hip", "gfx942:xnack+", "gfx942:sramecc+:xnack-", true, false},
                                   {"hip", "gfx942:xnack+", "gfx942", true, false},
                                   {"hip", "gfx94", "gfx942", true, false},
                                   {"hip", "gfx942", "gfx950", true, false}}) {
    KernelMetadata kernel;
    kernel.backend = one.backend;
    kernel.architecture = one.kernel;
    kernel.hidden_pointers = one.is_triton ? 2 : 0;
    DeviceFacts device;
    device.architecture = one.device;
    EXPECT_EQ(LaunchPlan::Make(kernel, one.backend, device).ok(), one.runs)
        << one.kernel << " on " << one.device;
  }
}

TEST(ArchitectureTest, ErrorNamesKernelAndDeviceArchitecture) {
  const Status status = MakeStatus(Metadata(R"({"target": "cuda:100"})"));
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "compiled for cuda:100, but device 0 (H200) is cuda:90: have it compiled for that "
            "target");
  EXPECT_FALSE(MakeStatus(Metadata(R"({"target": "hip:gfx942"})")).ok());
}

TEST_F(LaunchPlanTest, BlockAndSharedMemoryAreTheKernels) {
  Assign(call_.grid, {7, 8, 9});
  call_.stream = this;
  const auto launch = Resolve(R"({"num_warps": 12, "shared_bytes": 5000})");
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_EQ(launch->grid, (std::array<uint32_t, 3>{7, 8, 9}));
  EXPECT_EQ(launch->block, (std::array<uint32_t, 3>{384, 1, 1}));
  EXPECT_EQ(launch->dynamic_shared_bytes, 5000u);
  EXPECT_EQ(launch->stream, this);
  EXPECT_EQ(launch->cluster[0], 0u);
}

TEST_F(LaunchPlanTest, GridCountsClusters) {
  Assign(call_.grid, {10, 2, 1});
  const auto launch = Resolve(R"({"num_ctas": 2, "cluster_dims": [2, 1, 1]})");
  EXPECT_EQ(launch->grid, (std::array<uint32_t, 3>{20, 2, 1}));
  EXPECT_EQ(launch->cluster, (std::array<uint32_t, 3>{2, 1, 1}));
  // As Triton up to 3.5 has it.
  const auto older = Resolve(R"({"num_ctas": 4, "cluster_dims": [2, 2, 1]})");
  EXPECT_EQ(older->grid, (std::array<uint32_t, 3>{20, 4, 1}));
}

TEST_F(LaunchPlanTest, GridHasLimits) {
  Assign(call_.grid, {2147483647, 65535, 65535});
  EXPECT_TRUE(Resolve().ok());
  Assign(call_.grid, {2147483648u, 1, 1});
  EXPECT_EQ(Resolve().status().code(), Code::kInvalidArgument);
  Assign(call_.grid, {1, 65536, 1});
  const auto status = Resolve().status();
  EXPECT_EQ(status.message(), "a grid of 1x65536x1 has 65536 blocks along y, H200 takes 65535");
  Assign(call_.grid, {1073741824, 1, 1});
  EXPECT_FALSE(Resolve(R"({"num_ctas": 2, "cluster_dims": [2, 1, 1]})").ok());
}

TEST_F(LaunchPlanTest, CallMayNotChangeTheBlockOfATritonKernel) {
  Assign(call_.block, {64, 1, 1});
  EXPECT_EQ(Resolve().status().message(), "a block of 64x1x1, it was compiled for 128x1x1");
  Assign(call_.block, {128, 1, 1});
  EXPECT_TRUE(Resolve().ok());
}

TEST_F(LaunchPlanTest, APlainKernelTakesBlockAndSharedMemoryFromTheCall) {
  const std::string plain = R"({"hidden_pointers": 0, "num_warps": 0, "shared_bytes": 4096})";
  EXPECT_FALSE(Resolve(plain).ok());
  Assign(call_.block, {16, 16, 2});
  call_.dynamic_shared_bytes = 100;
  const auto launch = Resolve(plain);
  ASSERT_TRUE(launch.ok()) << launch.status().message();
  EXPECT_EQ(launch->block, (std::array<uint32_t, 3>{16, 16, 2}));
  EXPECT_EQ(launch->dynamic_shared_bytes, 100u);
  Assign(call_.block, {32, 32, 2});
  EXPECT_EQ(Resolve(plain).status().code(), Code::kInvalidArgument);
}

TEST_F(LaunchPlanTest, PdlAndCooperativeComeFromKernelOrCall) {
  EXPECT_FALSE(Resolve()->pdl || Resolve()->cooperative);
  EXPECT_TRUE(Resolve(R"({"launch_pdl": true})")->pdl);
  EXPECT_TRUE(Resolve(R"({"launch_cooperative_grid": true})")->cooperative);
  call_.pdl = call_.cooperative = 1;
  EXPECT_TRUE(Resolve()->pdl && Resolve()->cooperative);
}

TEST_F(LaunchPlanTest, ArgumentsAreCountedAndMeasured) {
  call_.argument_count = 3;
  EXPECT_EQ(Resolve().status().message(), "3 arguments, it takes 2 (hidden ones are added here)");
  call_.argument_count = 2;
  const uint32_t wrong[] = {8, 8};
  call_.argument_bytes = wrong;
  EXPECT_EQ(Resolve().status().message(), "argument 1 (n: i32) has 8 bytes, should have 4");
  const uint32_t right[] = {8, 4};
  call_.argument_bytes = right;
  EXPECT_TRUE(Resolve().ok());
}

// Every one of these calls of every one of these kernels: the short way gives what the long one
// does, or nothing.
TEST_F(LaunchPlanTest, APlainCallIsResolvedAsAnyOther) {
  using Lengths = std::array<uint32_t, 3>;
  constexpr uint32_t kMost = ~uint32_t{0};
  size_t plain = 0;
  for (const char* patch :
       {"{}", R"({"shared_bytes": 4096})", R"({"launch_pdl": true})",
        R"({"launch_cooperative_grid": true})", R"({"num_ctas": 2, "cluster_dims": [2, 1, 1]})",
        R"({"global_scratch_bytes": 384})", R"({"profile_scratch_bytes": 8})",
        R"({"hidden_pointers": 0, "num_warps": 0, "shared_bytes": 4096})",
        R"({"hidden_pointers": 0, "num_warps": 2})"}) {
    SCOPED_TRACE(patch);
    metadata_ = Metadata(patch);
    const LaunchPlan plan = *LaunchPlan::Make(metadata_, "cuda", Hopper());
    for (const Lengths& grid :
         {Lengths{1, 1, 1}, Lengths{2147483647, 65535, 65535}, Lengths{2147483648u, 1, 1},
          Lengths{1, 65536, 1}, Lengths{1, 1, kMost}, Lengths{0, 1, 1}, Lengths{3, 2, 0}}) {
      for (const Lengths& block :
           {Lengths{0, 0, 0}, Lengths{128, 1, 1}, Lengths{16, 16, 2}, Lengths{32, 32, 2},
            Lengths{16, 0, 1}, Lengths{kMost, kMost, kMost}}) {
        for (const uint32_t shared : {0u, 100u, (227u << 10) - 4096, 227u << 10, kMost}) {
          for (const uint32_t count : {0u, 1u, 2u, 3u, kMost}) {
            Assign(call_.grid, grid);
            Assign(call_.block, block);
            call_.dynamic_shared_bytes = shared;
            call_.argument_count = count;
            DriverLaunch given;
            if (!plan.ResolvePlain(call_, given)) continue;
            ++plain;
            EXPECT_FALSE(call_.IsEmpty() || plan.NeedsScratch());
            const auto launch = plan.Resolve(call_);
            ASSERT_TRUE(launch.ok()) << launch.status().message();
            EXPECT_EQ(given.grid, launch->grid);
            EXPECT_EQ(given.block, launch->block);
            EXPECT_EQ(given.dynamic_shared_bytes, launch->dynamic_shared_bytes);
            EXPECT_EQ(given.stream, launch->stream);
            EXPECT_FALSE(launch->pdl || launch->cooperative || launch->cluster[0] != 0);
          }
        }
      }
    }
  }
  // Two grids and three amounts of shared memory, as each kernel has some of its own. Triton's
  // kernels take their own block, named or not; plain ones take two of these, and three where they
  // have their own.
  EXPECT_EQ(plain, 2u * 3 * (2 + 2 + 2 + 3));
}

TEST_F(LaunchPlanTest, CallWithOptionsIsNotPlain) {
  metadata_ = Metadata();
  const LaunchPlan plan = *LaunchPlan::Make(metadata_, "cuda", Hopper());
  Assign(call_.grid, {1, 1, 1});
  DriverLaunch given;
  EXPECT_TRUE(plan.ResolvePlain(call_, given));
  const uint32_t bytes[] = {8, 4};
  call_.argument_bytes = bytes;
  EXPECT_FALSE(plan.ResolvePlain(call_, given));
  call_.argument_bytes = nullptr;
  call_.pdl = 1;
  EXPECT_FALSE(plan.ResolvePlain(call_, given));
  call_.pdl = 0;
  call_.cooperative = 1;
  EXPECT_FALSE(plan.ResolvePlain(call_, given));
}

TEST_F(LaunchPlanTest, ScratchIsForTheWholeGrid) {
  metadata_ = Metadata(R"({"global_scratch_bytes": 384, "profile_scratch_bytes": 8, "num_ctas": 2,
                           "cluster_dims": [2, 1, 1]})");
  const LaunchPlan plan = *LaunchPlan::Make(metadata_, "cuda", Hopper());
  Assign(call_.grid, {10, 3, 2});
  EXPECT_EQ(plan.ScratchBytes(call_, 384), 384u * 60 * 2);
  EXPECT_EQ(plan.ScratchBytes(call_, 8), 8u * 60 * 2);
  Assign(call_.grid, {4294967295u, 4294967295u, 4294967295u});
  EXPECT_EQ(plan.ScratchBytes(call_, 384), uint64_t{1} << 60);
}

TEST(LaunchPlanLimitsTest, RefusesAKernelThatExceedsTheDevice) {
  EXPECT_EQ(MakeStatus(Metadata(R"({"shared_bytes": 232449})")).code(), Code::kResourceExhausted);
  EXPECT_TRUE(MakeStatus(Metadata(R"({"shared_bytes": 232448})")).ok());
  EXPECT_EQ(MakeStatus(Metadata(R"({"num_warps": 33})")).code(), Code::kResourceExhausted);
  EXPECT_TRUE(MakeStatus(Metadata(R"({"num_warps": 32})")).ok());
  EXPECT_EQ(MakeStatus(Metadata(R"({"tensor_memory_columns": 513})")).code(),
            Code::kResourceExhausted);
  EXPECT_EQ(MakeStatus(Metadata(R"({"hidden_pointers": 3})")).code(), Code::kUnimplemented);
}

TEST(LaunchPlanFunctionTest, BinaryAndMetadataMustBelongTogether) {
  const KernelMetadata metadata = Metadata();
  const LaunchPlan plan = *LaunchPlan::Make(metadata, "cuda", Hopper());
  FunctionFacts facts;
  EXPECT_TRUE(plan.CheckFunction(facts).ok());
  facts.parameter_bytes = {8, 4, 8, 8};
  EXPECT_TRUE(plan.CheckFunction(facts).ok());
  facts.parameter_bytes = {8, 4, 8};
  EXPECT_EQ(plan.CheckFunction(facts).message(),
            "the binary takes 3 parameters, the metadata says 2 and 2 hidden: they do not belong "
            "together");
  facts.parameter_bytes = {8, 8, 8, 8};
  EXPECT_EQ(plan.CheckFunction(facts).code(), Code::kInvalidArgument);
  facts.parameter_bytes.reset();
  facts.threads_max = 127;
  EXPECT_EQ(plan.CheckFunction(facts).code(), Code::kResourceExhausted);
}

TEST(LaunchPlanFunctionTest, OptsInToAllTheSharedMemoryThatALaunchMayWant) {
  FunctionFacts facts;
  facts.static_shared_bytes = 16;
  const KernelMetadata metadata = Metadata();
  DeviceFacts device = Hopper();
  EXPECT_EQ(LaunchPlan::Make(metadata, "cuda", device)->SharedBytesToAllow(facts),
            (227 << 10) - 16);
  device.shared_bytes_max = 48 << 10;
  EXPECT_EQ(LaunchPlan::Make(metadata, "cuda", device)->SharedBytesToAllow(facts), 0);
}

TEST(LaunchPlanFunctionTest, OnlyKernelsWithMuchSharedMemoryPreferItToCache) {
  const auto prefers = [](const std::string& patch) {
    const KernelMetadata metadata = Metadata(patch);
    return LaunchPlan::Make(metadata, "cuda", Hopper())->PrefersSharedMemory();
  };
  EXPECT_FALSE(prefers(R"({"shared_bytes": 49152})"));
  EXPECT_TRUE(prefers(R"({"shared_bytes": 49153})"));
  EXPECT_FALSE(prefers(R"({"shared_bytes": 0, "hidden_pointers": 0})"));
}

TEST_F(LaunchPlanTest, RefusesTooMuchDynamicSharedMemory) {
  for (const uint32_t bytes : {uint32_t{227 << 10}, ~uint32_t{0}}) {
    call_.dynamic_shared_bytes = bytes;
    const auto launch = Resolve(R"({"shared_bytes": 4096})");
    EXPECT_EQ(launch.status().code(), Code::kInvalidArgument) << bytes;
    EXPECT_NE(launch.status().message().find("bytes of shared memory"), std::string_view::npos);
  }
  call_.dynamic_shared_bytes = (227 << 10) - 4096;
  EXPECT_EQ(Resolve(R"({"shared_bytes": 4096})")->dynamic_shared_bytes, 227u << 10);
}

TEST(SpirvPlanTest, RunsWhereItsVersionIsTaken) {
  const auto make = [](const std::string& kernel, const std::string& device) {
    const KernelMetadata metadata = Metadata(R"({"hidden_pointers": 0, "num_warps": 0, "target": )"
                                             R"({"backend": "spirv", "architecture": ")" +
                                             kernel + R"("}})");
    DeviceFacts facts = Hopper();
    facts.name = "CPU";
    facts.architecture = device;
    return std::string(LaunchPlan::Make(metadata, "spirv", facts).status().message());
  };
  EXPECT_EQ(make("1.2", "1.4"), "");
  EXPECT_EQ(make("1.4", "1.4"), "");
  EXPECT_EQ(make("1.9", "1.10"), "");
  EXPECT_EQ(make("1.5", "1.4"),
            "compiled for spirv:1.5, but device 0 (CPU) is spirv:1.4: have it compiled for that "
            "target");
  EXPECT_EQ(make("1.0", ""),
            "device 0 (CPU) takes no SPIR-V: its OpenCL driver compiles source only");
}

}  // namespace
}  // namespace kiln::launch
