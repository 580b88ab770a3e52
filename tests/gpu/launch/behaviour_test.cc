// What the library does around launches: errors, limits, loads, timing.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class BehaviourTest : public GpuTest {};

TEST_F(BehaviourTest, DeviceAndDriver) {
  const kiln_launch_device device = Device();
  int version = 0;
  GPU(cuDriverGetVersion(&version));
  std::printf("  %s, cuda:%s, driver API %d, libkiln_launch %s, shared memory %llu, L2 %llu\n",
              device.name, device.architecture, version, kiln_launch_version(),
              static_cast<unsigned long long>(device.shared_bytes_max),
              static_cast<unsigned long long>(device.l2_bytes));
  EXPECT_EQ(device.architecture, Architecture());
}

TEST_F(BehaviourTest, ADamagedImageIsFoundBeforeTheDriverSeesIt) {
  std::string json = ReadFile(JsonOf(CaseName("vector_add")));
  std::string binary = ReadFile(places().artifacts + "/" + CaseName("vector_add") + ".cubin");
  ASSERT_GT(binary.size(), 0x1100u);
  for (size_t i = 0x1000; i < 0x1100; ++i) binary[i] = static_cast<char>(~binary[i]);
  kiln_launch_bytes bytes{};
  bytes.size = sizeof bytes;
  bytes.json = json.data();
  bytes.json_bytes = json.size();
  bytes.binary = binary.data();
  bytes.binary_bytes = binary.size();
  kiln_launch_artifact* artifact = nullptr;
  EXPECT_EQ(kiln_launch_artifact_open_bytes(&bytes, &artifact), KILN_LAUNCH_DATA_LOSS);
  std::printf("  %s\n", kiln_launch_error());
  // The driver itself takes it: that is why.
  Handle library = nullptr;
  const Result result =
      Gpu().cuLibraryLoadData(&library, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  std::printf("  cuLibraryLoadData of the same bytes: %d\n", result);
}

TEST_F(BehaviourTest, AnotherArchitectureIsRefusedWithBothNames) {
  kiln_launch_kernel* kernel = nullptr;
  const std::string other = Architecture() == "80" ? "90" : "80";
  EXPECT_EQ(TryOpen("vector_add-cuda-" + other, &kernel), KILN_LAUNCH_FAILED_PRECONDITION);
  std::printf("  %s\n", kiln_launch_error());
  EXPECT_NE(std::string(kiln_launch_error()).find("cuda:" + other), std::string::npos);
  EXPECT_NE(std::string(kiln_launch_error()).find("cuda:" + Architecture()), std::string::npos);
}

TEST_F(BehaviourTest, HotFilesAreReadInPlace) {
  kiln_launch_artifact* artifact = nullptr;
  int found = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(places().artifacts + "/hot")) {
    if (!entry.is_regular_file() || entry.path().filename() == "toolchains") continue;
    if (entry.path().extension() == ".stages") continue;  // earlier ones, without a binary
    ASSERT_LAUNCH_OK(kiln_launch_artifact_open_hot(entry.path().c_str(), nullptr, &artifact));
    kiln_launch_artifact_close(artifact);
    ++found;
  }
  EXPECT_GT(found, 0);
}

TEST_F(BehaviourTest, ASmallKernelMayHaveAllTheSharedMemoryThereIs) {
  VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  const auto all = static_cast<uint32_t>(Device().shared_bytes_max);
  for (const uint32_t bytes : {uint32_t{48 << 10} + 1, (uint32_t{48 << 10} + all) / 2, all}) {
    add.Clear();
    kiln_launch_config config = Config(VectorAdd::kPrograms);
    config.dynamic_shared_bytes = bytes;
    ASSERT_LAUNCH_OK(Enqueue(kernel, config, add.arguments())) << bytes;
    EXPECT_TRUE(add.IsRight()) << bytes;
  }
  kiln_launch_config config = Config(VectorAdd::kPrograms);
  config.dynamic_shared_bytes = all + 1;
  EXPECT_EQ(Enqueue(kernel, config, add.arguments()), KILN_LAUNCH_INVALID_ARGUMENT);
}

TEST_F(BehaviourTest, StrictRefusesToLoadInMidRun) {
  kiln_launch_settings settings{};
  settings.strict = 1;
  Configure(settings);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  EXPECT_EQ(Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments()),
            KILN_LAUNCH_FAILED_PRECONDITION);
  std::printf("  %s\n", kiln_launch_error());
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
  ASSERT_LAUNCH_OK(Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments()));
  EXPECT_TRUE(add.IsRight());
}

TEST_F(BehaviourTest, KernelsGoAtTheLimitAndComeBack) {
  kiln_launch_settings settings{};
  settings.resident_kernels_max = 2;
  Configure(settings);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* vector_add = Open("vector_add");
  const auto before = Stats();
  for (const char* name : {"softmax", "layer_norm_forward", "attention_forward"}) {
    ASSERT_LAUNCH_OK(kiln_launch_prepare(Open(name)));
    ASSERT_LAUNCH_OK(kiln_launch_prepare(Open("matmul_64x64x32")));
    EXPECT_LE(Stats().kernels_resident, 2u);
    ASSERT_LAUNCH_OK(Enqueue(vector_add, Config(VectorAdd::kPrograms), add.arguments()));
  }
  EXPECT_TRUE(add.IsRight());
  const auto after = Stats();
  EXPECT_EQ(after.loads_at_launch - before.loads_at_launch, 3u);
  EXPECT_GE(after.evictions - before.evictions, 6u);
}

TEST_F(BehaviourTest, LoadsTakeSoLong) {
  for (const char* name : {"vector_add", "matmul_64x64x32", "attention_forward"}) {
    kiln_launch_kernel* kernel = Open(name);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    std::printf("  prepare %s: %.1f us\n", name, took.count());
  }
}

TEST_F(BehaviourTest, KernelInfoAndTimes) {
  kiln_launch_settings settings{};
  settings.times_launches = 1;
  Configure(settings);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  for (int i = 0; i < 3000; ++i) {
    ASSERT_LAUNCH_OK(Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments()));
  }
  kiln_launch_kernel_info info{};
  info.size = sizeof info;
  ASSERT_LAUNCH_OK(kiln_launch_kernel_get_info(kernel, &info));
  EXPECT_GT(info.registers, 0u);
  kiln_launch_times times{};
  times.size = sizeof times;
  ASSERT_LAUNCH_OK(kiln_launch_kernel_get_times(kernel, 1, &times));
  EXPECT_EQ(times.launches + times.dropped, 3000u);
  EXPECT_GT(times.min_ms, 0);
  EXPECT_LT(times.max_ms, 100);
  std::printf("  %u registers; %llu launches timed (%llu dropped), %.4f to %.4f ms\n",
              info.registers, static_cast<unsigned long long>(times.launches),
              static_cast<unsigned long long>(times.dropped), times.min_ms, times.max_ms);
}

TEST_F(BehaviourTest, HooksSurroundEachLaunch) {
  int calls = 0;
  kiln_launch_settings settings{};
  settings.hook_user = &calls;
  settings.enter_hook = [](void* user, const kiln_launch_event*) { ++*static_cast<int*>(user); };
  settings.exit_hook = settings.enter_hook;
  Configure(settings);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments()));
  ASSERT_LAUNCH_OK(Enqueue(kernel, Config(0), add.arguments()));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(add.IsRight());
}

TEST_F(BehaviourTest, WrongLaunchesAreRefusedWithAName) {
  kiln_launch_kernel* kernel = Open("vector_add");
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  std::vector<const void*> few = add.arguments();
  few.pop_back();
  EXPECT_EQ(Enqueue(kernel, Config(1), few), KILN_LAUNCH_INVALID_ARGUMENT);
  std::printf("  %s\n", kiln_launch_error());
  EXPECT_EQ(Enqueue(kernel, Config(1, 65536), add.arguments()), KILN_LAUNCH_INVALID_ARGUMENT);
  std::printf("  %s\n", kiln_launch_error());
  kiln_launch_config config = Config(1 << 20);
  config.cooperative = 1;
  EXPECT_EQ(Enqueue(kernel, config, add.arguments()), KILN_LAUNCH_RESOURCE_EXHAUSTED);
  std::printf("  %s\n", kiln_launch_error());
  ASSERT_LAUNCH_OK(Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments()));
  EXPECT_TRUE(add.IsRight()) << "nothing is broken after a refusal";
}

}  // namespace
}  // namespace kiln::gpu
