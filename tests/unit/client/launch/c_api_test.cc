// kiln_launch.h as a program sees it: through the shared library.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class CApiTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_->Define("k", {.parameter_bytes = {8, 4, 8, 8}});
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    ASSERT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
    OpenArtifact();
    ASSERT_EQ(kiln_launch_kernel_open(runtime_, artifact_, 0, &kernel_), KILN_LAUNCH_OK)
        << kiln_launch_error();
    config_.size = sizeof config_;
    config_.grid[0] = config_.grid[1] = config_.grid[2] = 1;
  }
  void TearDown() override {
    kiln_launch_kernel_close(kernel_);
    kiln_launch_artifact_close(artifact_);
    kiln_launch_close(runtime_);
  }
  void OpenArtifact() {
    const std::string json = MadeDocument("k", {{"x", "*fp32"}, {"n", "i32"}});
    const std::string binary = MadeElf("code");
    const launch::Sha256Digest digest = launch::Sha256(binary);
    kiln_launch_bytes bytes{};
    bytes.size = sizeof bytes;
    bytes.json = json.data();
    bytes.json_bytes = json.size();
    bytes.binary = binary.data();
    bytes.binary_bytes = binary.size();
    bytes.digest = digest.data();
    ASSERT_EQ(kiln_launch_artifact_open_bytes(&bytes, &artifact_), KILN_LAUNCH_OK)
        << kiln_launch_error();
  }
  kiln_launch_code Enqueue() { return kiln_launch_enqueue(kernel_, &config_, arguments_, 2); }

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  kiln_launch_artifact* artifact_ = nullptr;
  kiln_launch_kernel* kernel_ = nullptr;
  kiln_launch_config config_{};
  uint64_t x_ = 7;
  int32_t n_ = 8;
  const void* arguments_[2] = {&x_, &n_};
};

TEST_F(CApiTest, LaunchesAndCounts) {
  EXPECT_EQ(kiln_launch_prepare(kernel_), KILN_LAUNCH_OK);
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_OK) << kiln_launch_error();
  EXPECT_EQ(fake_->launches().size(), 1u);
  kiln_launch_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(kiln_launch_get_stats(runtime_, &stats), KILN_LAUNCH_OK);
  EXPECT_EQ(stats.loads, 1u);
  EXPECT_EQ(stats.kernels_open, 1u);
  EXPECT_EQ(stats.kernels_resident, 1u);
}

TEST_F(CApiTest, ErrorsHaveWordsOnTheThreadThatMadeThem) {
  fake_->Fail("cuLaunchKernelEx", 2);
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_RESOURCE_EXHAUSTED);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
  EXPECT_EQ(kiln_launch_driver_result(), 2);
}

TEST_F(CApiTest, OpeningAgainGivesTheSameRuntime) {
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.driver_path = fake_.path().c_str();
  kiln_launch_runtime* again = nullptr;
  ASSERT_EQ(kiln_launch_open(&options, &again), KILN_LAUNCH_OK);
  EXPECT_EQ(again, runtime_);
}

TEST_F(CApiTest, AnotherNameOfTheSameDriverGivesTheSameRuntime) {
  const std::filesystem::path path = fake_.path();
  const std::string other = path.parent_path() / "." / path.filename();
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.driver_path = other.c_str();
  kiln_launch_runtime* again = nullptr;
  ASSERT_EQ(kiln_launch_open(&options, &again), KILN_LAUNCH_OK) << kiln_launch_error();
  EXPECT_EQ(again, runtime_);
}

TEST_F(CApiTest, DescribesArtifactKernelAndDevice) {
  kiln_launch_artifact_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kiln_launch_artifact_get_info(artifact_, &info), KILN_LAUNCH_OK);
  EXPECT_STREQ(info.name, "k");
  EXPECT_STREQ(info.architecture, "90");
  EXPECT_EQ(info.parameter_count, 2u);
  kiln_launch_parameter parameter{};
  parameter.size = sizeof parameter;
  ASSERT_EQ(kiln_launch_artifact_get_parameter(artifact_, 1, &parameter), KILN_LAUNCH_OK);
  EXPECT_STREQ(parameter.name, "n");
  EXPECT_EQ(parameter.bytes, 4u);
  EXPECT_EQ(kiln_launch_artifact_get_parameter(artifact_, 2, &parameter),
            KILN_LAUNCH_INVALID_ARGUMENT);
  kiln_launch_kernel_info facts{};
  facts.size = sizeof facts;
  EXPECT_EQ(kiln_launch_kernel_get_info(kernel_, &facts), KILN_LAUNCH_FAILED_PRECONDITION);
  uint32_t blocks = 0;
  EXPECT_EQ(kiln_launch_kernel_get_resident_blocks(kernel_, 128, 0, &blocks),
            KILN_LAUNCH_FAILED_PRECONDITION);
  ASSERT_EQ(kiln_launch_prepare(kernel_), KILN_LAUNCH_OK);
  ASSERT_EQ(kiln_launch_kernel_get_info(kernel_, &facts), KILN_LAUNCH_OK);
  EXPECT_EQ(facts.registers, 32u);
  ASSERT_EQ(kiln_launch_kernel_get_resident_blocks(kernel_, 128, 0, &blocks), KILN_LAUNCH_OK);
  EXPECT_EQ(blocks, 4u * 1024 / 128);
  fake_->is_cooperative = false;
  EXPECT_EQ(kiln_launch_kernel_get_resident_blocks(kernel_, 128, 0, &blocks),
            KILN_LAUNCH_UNIMPLEMENTED);
  EXPECT_EQ(blocks, 32u) << "a failed call changes nothing";
  kiln_launch_device device{};
  device.size = sizeof device;
  const int contexts = fake_->calls("cuDevicePrimaryCtxRetain");
  ASSERT_EQ(kiln_launch_get_device(runtime_, 0, &device), KILN_LAUNCH_OK) << kiln_launch_error();
  EXPECT_STREQ(device.name, "Stand-in GPU");
  EXPECT_STREQ(device.architecture, "90");
  EXPECT_EQ(fake_->calls("cuDevicePrimaryCtxRetain"), contexts)
      << "a context costs time and memory";
}

TEST_F(CApiTest, FindsTheDeviceOfAnAddress) {
  int32_t device = -1;
  ASSERT_EQ(kiln_launch_address_get_device(runtime_, 0x2'0000'1234'5678, &device), KILN_LAUNCH_OK)
      << kiln_launch_error();
  EXPECT_EQ(device, 2);
  EXPECT_EQ(kiln_launch_address_get_device(runtime_, 0x40, &device), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("address 0x40: cuPointerGetAttribute"));
}

TEST_F(CApiTest, AStreamWaitsForAnother) {
  void* stream = &x_;
  void* producer = &n_;
  EXPECT_EQ(kiln_launch_stream_wait(kernel_, stream, producer), KILN_LAUNCH_OK);
  EXPECT_EQ(fake_->calls("cuStreamWaitEvent"), 1);
  EXPECT_EQ(kiln_launch_stream_wait(nullptr, stream, producer), KILN_LAUNCH_INVALID_ARGUMENT);
}

TEST_F(CApiTest, MemoryIsFilledInTheKernelsContext) {
  EXPECT_EQ(fake_->Current(), nullptr);
  EXPECT_EQ(kiln_launch_fill(kernel_, &n_, 0xabc00, 0, 64), KILN_LAUNCH_OK) << kiln_launch_error();
  EXPECT_EQ(fake_->calls("cuMemsetD8Async"), 1);
  EXPECT_EQ(kiln_launch_fill(kernel_, &n_, 0, 0, 0), KILN_LAUNCH_OK);
  EXPECT_EQ(fake_->calls("cuMemsetD8Async"), 1) << "nothing to fill";
  fake_->Fail("cuMemsetD8Async", 700);
  EXPECT_EQ(kiln_launch_fill(kernel_, &n_, 0xabc00, 0, 64), KILN_LAUNCH_INTERNAL);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("kernel k"));
}

TEST_F(CApiTest, ShorterStructsOfOlderProgramsAreTaken) {
  config_.size = offsetof(kiln_launch_config, block);
  config_.block[0] = 999;  // belongs to nobody
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_OK) << kiln_launch_error();
  struct {
    kiln_launch_config known;
    char later[64];
  } newer{};
  newer.known = config_;
  newer.known.size = sizeof newer;
  newer.known.block[0] = 0;
  EXPECT_EQ(kiln_launch_enqueue(kernel_, &newer.known, arguments_, 2), KILN_LAUNCH_OK)
      << kiln_launch_error();
  config_.size = 0;
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_INVALID_ARGUMENT);
  kiln_launch_stats stats{};
  stats.size = offsetof(kiln_launch_stats, loads);
  stats.loads = 77;
  ASSERT_EQ(kiln_launch_get_stats(runtime_, &stats), KILN_LAUNCH_OK);
  EXPECT_EQ(stats.loads, 77u) << "written past the caller's struct";
}

TEST_F(CApiTest, NullIsAnErrorAndClosesOfNullDoNothing) {
  EXPECT_EQ(kiln_launch_open(nullptr, nullptr), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_launch_enqueue(nullptr, &config_, arguments_, 2), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_launch_enqueue(kernel_, nullptr, arguments_, 2), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_launch_enqueue(kernel_, &config_, nullptr, 2), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_launch_artifact_open_json(nullptr, &artifact_), KILN_LAUNCH_INVALID_ARGUMENT);
  kiln_launch_kernel_close(nullptr);
  kiln_launch_artifact_close(nullptr);
  kiln_launch_descriptor_close(nullptr);
  kiln_launch_close(nullptr);
}

TEST_F(CApiTest, TimesAreGivenBeforeTheyAreReset) {
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.times_launches = 1;
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_OK);
  kiln_launch_times times{};
  EXPECT_EQ(kiln_launch_kernel_get_times(kernel_, 1, &times), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_launch_kernel_get_times(kernel_, 1, nullptr), KILN_LAUNCH_INVALID_ARGUMENT);
  times.size = sizeof times;
  ASSERT_EQ(kiln_launch_kernel_get_times(kernel_, 1, &times), KILN_LAUNCH_OK);
  EXPECT_EQ(times.launches, 1u) << "lost by a call that failed";
  ASSERT_EQ(kiln_launch_kernel_get_times(kernel_, 0, &times), KILN_LAUNCH_OK);
  EXPECT_EQ(times.launches, 0u);
}

TEST_F(CApiTest, HooksOfTheSettingsAreCalled) {
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  std::string seen;
  settings.hook_user = &seen;
  settings.exit_hook = [](void* user, const kiln_launch_event* event) {
    *static_cast<std::string*>(user) += event->kernel + std::to_string(event->grid[0]);
  };
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  config_.grid[0] = 5;
  EXPECT_EQ(Enqueue(), KILN_LAUNCH_OK);
  EXPECT_EQ(seen, "k5");
}

TEST_F(CApiTest, GraphsAndTheirBuffers) {
  void* stream = &config_;
  config_.stream = stream;
  fake_->BeginCapture(stream);
  ASSERT_EQ(kiln_launch_graph_set_name(runtime_, stream, "step"), KILN_LAUNCH_OK);
  ASSERT_EQ(kiln_launch_graph_add_buffer(runtime_, stream, 0x8000, 16, "cache"), KILN_LAUNCH_OK);
  ASSERT_EQ(Enqueue(), KILN_LAUNCH_OK) << kiln_launch_error();
  void* graph = fake_->EndCapture(stream);
  EXPECT_EQ(kiln_launch_check_free(runtime_, 0x800f, 0), KILN_LAUNCH_FAILED_PRECONDITION);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("buffer cache (at 0x8000) is used by step"));
  fake_->DestroyGraph(graph);
  EXPECT_EQ(kiln_launch_check_free(runtime_, 0x800f, 0), KILN_LAUNCH_OK);
}

// The structs of candidates and results lie one behind the other, as the program's header has them.
TEST_F(CApiTest, TunesCandidatesOfAProgramsOwnSize) {
  struct LaterCandidate {
    kiln_launch_candidate known;
    uint64_t later;
  };
  const uint64_t buffer = fake_->MakeBuffer("data");
  x_ = buffer;
  LaterCandidate candidates[2] = {};
  for (LaterCandidate& candidate : candidates) {
    candidate.known = {sizeof candidate, 2, kernel_, &config_, arguments_};
  }
  candidates[0].known.kernel = nullptr;
  const kiln_launch_range range = {buffer, 4};
  std::map<std::string, std::string> table;
  kiln_launch_tuning_store store{};
  store.size = sizeof store;
  store.user = &table;
  store.find = [](void*, const void*, uint64_t, void*, uint64_t) { return uint64_t{0}; };
  store.put = [](void* user, const void* key, uint64_t key_bytes, const void* value,
                 uint64_t value_bytes) {
    (*static_cast<std::map<std::string, std::string>*>(
        user))[{static_cast<const char*>(key), key_bytes}] = {static_cast<const char*>(value),
                                                              value_bytes};
  };
  kiln_launch_autotune_options options{};
  options.size = sizeof options;
  options.reads = options.writes = &range;
  options.read_count = options.write_count = 1;
  options.problem = "n=8";
  options.problem_bytes = 3;
  options.store = &store;
  options.repeat_ms = 7;
  options.flush_bytes = 1024;
  kiln_launch_tuned tuned[2] = {};
  tuned[0].size = tuned[1].size = sizeof tuned[0];
  uint32_t fastest = 77;
  ASSERT_EQ(kiln_launch_autotune(runtime_, &candidates[0].known, 2, &options, tuned, &fastest),
            KILN_LAUNCH_OK)
      << kiln_launch_error();
  EXPECT_EQ(fastest, 1u);
  EXPECT_EQ(tuned[0].code, KILN_LAUNCH_FAILED_PRECONDITION);
  EXPECT_STREQ(tuned[0].reason, "it has no kernel");
  EXPECT_EQ(tuned[1].code, KILN_LAUNCH_OK);
  EXPECT_EQ(tuned[1].runs, 7u);
  EXPECT_EQ(tuned[1].median_ms, 1);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(fake_->Read(buffer, 4), "data");

  candidates[1].known.size = sizeof(kiln_launch_candidate);
  EXPECT_EQ(kiln_launch_autotune(runtime_, &candidates[0].known, 2, &options, tuned, &fastest),
            KILN_LAUNCH_INVALID_ARGUMENT);
  candidates[1].known.size = sizeof candidates[1];
  store.put = nullptr;
  EXPECT_EQ(kiln_launch_autotune(runtime_, &candidates[0].known, 2, &options, tuned, &fastest),
            KILN_LAUNCH_INVALID_ARGUMENT);
  store.put = [](void*, const void*, uint64_t, const void*, uint64_t) {};
  const size_t launches = fake_->launches().size();
  tuned[1].size = 0;
  EXPECT_EQ(kiln_launch_autotune(runtime_, &candidates[0].known, 2, &options, tuned, &fastest),
            KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("result 1 has a size of 0"));
  EXPECT_EQ(fake_->launches().size(), launches) << "it ran, and its results were lost";
  EXPECT_EQ(kiln_launch_autotune(runtime_, nullptr, 0, &options, tuned, &fastest),
            KILN_LAUNCH_INVALID_ARGUMENT);
}

TEST(CApiWithoutGpuTest, SaysThatThereIsNoDriver) {
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.driver_path = "libnothing_of_that_name.so.1";
  kiln_launch_runtime* runtime = nullptr;
  EXPECT_EQ(kiln_launch_open(&options, &runtime), KILN_LAUNCH_UNAVAILABLE);
  EXPECT_THAT(kiln_launch_error(), HasSubstr("no GPU driver here: libnothing_of_that_name.so.1"));
  options.backend = "metal";
  EXPECT_EQ(kiln_launch_open(&options, &runtime), KILN_LAUNCH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kiln
