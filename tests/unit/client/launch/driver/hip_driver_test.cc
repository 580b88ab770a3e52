#include "client/launch/driver/hip_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "client/launch/kiln_launch.h"
#include "client/launch/launcher.h"
#include "client/launch/tuner.h"
#include "tests/testing/launch/fake_hip.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

void Assign(uint32_t (&lengths)[3], const std::array<uint32_t, 3>& values) {
  std::copy(values.begin(), values.end(), lengths);
}

class HipDriverTest : public testing::Test {
 protected:
  HipDriverTest() : launcher_(*HipDriver::Open(fake_.path())) {
    fake_->Define("k", {.parameter_bytes = {8, 4, 8, 8}});
  }
  ~HipDriverTest() override {
    EXPECT_EQ(fake_->device(), 0) << "the thread's device was not put back";
    EXPECT_EQ(fake_->capture_mode(), 0) << "the thread's capture mode was not put back";
    EXPECT_EQ(fake_->last_error(), 0) << "a framework would take it for an error of its own";
  }

  // A kernel of (x: *fp32, n: i32) with two hidden pointers; `more` are entries of its metadata.
  StatusOr<std::shared_ptr<Kernel>> TryOpen(const std::string& more = R"("warp_size": 64)",
                                            int device = -1,
                                            const std::string& architecture = "gfx942") {
    const std::string target = R"("target": {"backend": "hip", "architecture": ")" + architecture +
                               R"(", "warp_size": 64}, )";
    return launcher_.Open(
        MadeArtifact(MadeDocument("k", {{"x", "*fp32"}, {"n", "i32"}}, "{" + target + more + "}")),
        device);
  }
  std::shared_ptr<Kernel> Open(const std::string& more = R"("warp_size": 64)", int device = -1) {
    auto kernel = TryOpen(more, device);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel.ok() ? *kernel : nullptr;
  }
  LaunchCall Call() {
    LaunchCall call{};
    Assign(call.grid, {3, 2, 1});
    call.stream = kStream;
    call.arguments = arguments_;
    call.argument_count = 2;
    return call;
  }
  Status Enqueue(const std::shared_ptr<Kernel>& kernel) {
    return launcher_.Enqueue(kernel, Call());
  }
  void EnqueueOk(const std::shared_ptr<Kernel>& kernel) {
    const Status status = Enqueue(kernel);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  static inline const Stream kStream = reinterpret_cast<Stream>(0x5000);
  FakeHipLibrary fake_;
  Launcher launcher_;
  uint64_t x_ = 0x1000;
  int32_t n_ = -42;
  const void* arguments_[2] = {&x_, &n_};
};

TEST(HipDriverOpenTest, FailureNamesItsReason) {
  EXPECT_EQ(HipDriver::Open("/nowhere/libamdhip64.so").status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(HipDriver::Open("libc.so.6").status().message()),
              HasSubstr("libc.so.6 has no hipInit: ROCm 6.0 or later is needed"));
  FakeHipLibrary old;
  old->version = 50'731'921;
  EXPECT_THAT(std::string(HipDriver::Open(old.path()).status().message()),
              HasSubstr("the HIP runtime is 5.7, 6.0 or later is needed"));
  FakeHipLibrary none;
  none->Fail("hipInit", hip::kNoDevice);
  EXPECT_EQ(HipDriver::Open(none.path()).status().code(), Code::kUnavailable);
}

TEST_F(HipDriverTest, DescribesTheDevice) {
  const auto device = launcher_.Device(1);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->ordinal, 1);
  EXPECT_EQ(device->name, "Stand-in AMD GPU");
  EXPECT_EQ(device->architecture, "gfx942:sramecc+:xnack-");
  EXPECT_EQ(device->warp_size, 64);
  EXPECT_EQ(device->shared_bytes_max, 64 << 10);
  EXPECT_THAT(std::string(launcher_.Device(2).status().message()),
              HasSubstr("there is no device 2, there are 2"));
}

TEST_F(HipDriverTest, PassesArgumentsHiddenPointersAndWavesOf64) {
  EnqueueOk(Open());
  ASSERT_THAT(fake_->launches(), SizeIs(1));
  const FakeLaunch launch = fake_->launches()[0];
  EXPECT_EQ(launch.kernel, "k");
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{3, 2, 1}));
  EXPECT_EQ(launch.block, (std::array<unsigned, 3>{256, 1, 1})) << "four warps of 64";
  EXPECT_EQ(launch.shared_bytes, 1024u);
  EXPECT_EQ(launch.stream, kStream);
  ASSERT_THAT(launch.arguments, SizeIs(4));
  EXPECT_EQ(std::memcmp(launch.arguments[0].data(), &x_, 8), 0);
  EXPECT_EQ(std::memcmp(launch.arguments[1].data(), &n_, 4), 0);
  EXPECT_EQ(launch.arguments[2], std::string(8, '\0'));
  EXPECT_EQ(fake_->calls("hipModuleLaunchKernel"), 1);
}

TEST_F(HipDriverTest, KernelWithWavesOf32HasBlocksOfThem) {
  EnqueueOk(Open(R"("warp_size": 32)"));
  EXPECT_EQ(fake_->launches()[0].block[0], 128u);
}

TEST_F(HipDriverTest, CooperativeAndClustersHaveFunctionsOfTheirOwn) {
  EnqueueOk(Open(R"("launch_cooperative_grid": true)"));
  EXPECT_EQ(fake_->calls("hipModuleLaunchCooperativeKernel"), 1);
  EnqueueOk(Open(R"("num_ctas": 4, "cluster_dims": [4, 1, 1])"));
  EXPECT_EQ(fake_->calls("hipDrvLaunchKernelEx"), 1);
  const FakeLaunch launch = fake_->launches()[1];
  EXPECT_EQ(launch.grid[0], 12u);
  EXPECT_EQ(launch.attributes.at(4), (std::array<unsigned, 3>{4, 1, 1}));
  EXPECT_EQ(launch.attributes.at(2)[0], 0u);
}

TEST_F(HipDriverTest, CooperativeAndClusterLaunchesAreRefusedUnderCapture) {
  for (const char* more :
       {R"("launch_cooperative_grid": true)", R"("num_ctas": 4, "cluster_dims": [4, 1, 1])"}) {
    const auto kernel = Open(more);
    fake_->BeginCapture(kStream);
    EXPECT_EQ(Enqueue(kernel).code(), Code::kUnimplemented);
    fake_->EndCaptureAndDestroyGraph(kStream);
    EnqueueOk(kernel);
  }
  EXPECT_THAT(fake_->launches(), SizeIs(2));
}

TEST_F(HipDriverTest, ProgrammaticDependentLaunchIsUnknown) {
  EXPECT_EQ(Enqueue(Open(R"("launch_pdl": true)")).code(), Code::kUnimplemented);
}

TEST_F(HipDriverTest, ScratchIsAllocatedAndGivenBack) {
  EnqueueOk(Open(R"("profile_scratch_bytes": 128)"));
  EXPECT_EQ(fake_->launches()[0].arguments[2], std::string(8, '\0'));
  EXPECT_NE(fake_->launches()[0].arguments[3], std::string(8, '\0'));
  EXPECT_EQ(fake_->calls("hipMallocAsync"), 1);
  EXPECT_EQ(fake_->allocated(), 0u);
}

TEST_F(HipDriverTest, LocalMemoryIsTheDevicesLimit) {
  EnqueueOk(Open(R"("shared_bytes": 65536)"));
  EXPECT_EQ(fake_->launches()[0].shared_bytes, 65536u);
  EXPECT_EQ(TryOpen(R"("shared_bytes": 65537)").status().code(), Code::kResourceExhausted);
}

TEST_F(HipDriverTest, OpensOnlyKernelsOfTheDevicesArchitectureAndFeatures) {
  EXPECT_TRUE(TryOpen(R"("num_warps": 4)", -1, "gfx942:xnack-").ok());
  EXPECT_THAT(std::string(TryOpen(R"("num_warps": 4)", -1, "gfx942:xnack+").status().message()),
              HasSubstr("compiled for hip:gfx942:xnack+, but device 0 (Stand-in AMD GPU) is "
                        "hip:gfx942:sramecc+:xnack-"));
  EXPECT_EQ(TryOpen(R"("num_warps": 4)", -1, "gfx90a").status().code(), Code::kFailedPrecondition);
}

TEST_F(HipDriverTest, AModuleIsLoadedOnTheDeviceOfItsKernel) {
  const auto kernel = Open(R"("num_warps": 4)", 1);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->module_device(), 1);
  EXPECT_NE(kernel, Open(R"("num_warps": 4)", 0)) << "each device has its own";
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(HipDriverTest, ErrorsNameTheRuntimesError) {
  const auto kernel = Open();
  EXPECT_TRUE(launcher_.Prepare(*Open(R"("num_warps": 8)")).ok());
  fake_->Fail("hipModuleLoadData", hip::kOutOfMemory);
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok()) << "tried again after another was unloaded";
  fake_->Fail("hipModuleLaunchKernel", hip::kOutOfMemory);
  const Status status = Enqueue(kernel);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.driver_result(), hip::kOutOfMemory);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("hipModuleLaunchKernel: hipErrorOutOfMemory (2)"));
}

TEST_F(HipDriverTest, RetriedLaunchLeavesNoLastError) {
  const auto kernel = Open(R"("num_warps": 4)", 1);
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  fake_->Fail("hipModuleLaunchKernel", hip::kOutOfMemory);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->last_error(), 0) << "it was launched on its own device";
  fake_->Fail("hipStreamIsCapturing", hip::kOutOfMemory);
  EnqueueOk(kernel);
}

TEST_F(HipDriverTest, AFunctionThatIsNotInTheImageLeavesNothingLoaded) {
  const auto driver = *HipDriver::Open(fake_.path());
  EXPECT_THAT(std::string(driver->Load("image", {.name = "missing"}).status().message()),
              HasSubstr("hipModuleGetFunction"));
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(HipDriverTest, GraphsAreWatched) {
  const auto kernel = Open();
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  EXPECT_FALSE(launcher_.graphs().CheckFree(0x1000, 4).ok());
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 1) << "the graph launches it";
  fake_->EndCaptureAndDestroyGraph(kStream);
  launcher_.Trim();
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(HipDriverTest, Tunes) {
  Candidate candidate;
  candidate.kernel = Open();
  candidate.call = Call();
  TuningRequest request;
  request.stream = kStream;
  std::vector<CandidateResult> results;
  Tuner tuner(launcher_);
  ASSERT_TRUE(tuner.Tune({candidate}, request, results).ok());
  EXPECT_EQ(results[0].times.median_ms, 20);
  request.reads = request.writes = {{0x10, 4}};
  EXPECT_THAT(std::string(tuner.Tune({candidate}, request, results).status().message()),
              HasSubstr("0x10 is not device memory"));
  EXPECT_EQ(fake_->allocated(), 0u);
}

TEST_F(HipDriverTest, FindsTheDeviceOfAnAddressAndOrdersStreams) {
  EXPECT_EQ(*launcher_.driver().DeviceOf(0x1000), 1);
  EXPECT_EQ(launcher_.driver().DeviceOf(0).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(launcher_.Order(*Open(), kStream, nullptr).ok());
  EXPECT_EQ(fake_->calls("hipStreamWaitEvent"), 1);
}

TEST_F(HipDriverTest, CInterfaceOpensTheHipBackend) {
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.backend = "hip";
  options.driver_path = fake_.path().c_str();
  kiln_launch_runtime* runtime = nullptr;
  ASSERT_EQ(kiln_launch_open(&options, &runtime), KILN_LAUNCH_OK) << kiln_launch_error();
  kiln_launch_device device{};
  device.size = sizeof device;
  ASSERT_EQ(kiln_launch_get_device(runtime, 0, &device), KILN_LAUNCH_OK) << kiln_launch_error();
  EXPECT_STREQ(device.architecture, "gfx942:sramecc+:xnack-");
  EXPECT_EQ(device.warp_size, 64u);
  options.driver_path = nullptr;
  EXPECT_EQ(kiln_launch_open(&options, &runtime), KILN_LAUNCH_UNAVAILABLE);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("libamdhip64.so"));
}

}  // namespace
}  // namespace kiln::launch
