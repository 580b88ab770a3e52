// kiln_launch.h where memory runs out. A program of its own, as it replaces operator new for all of
// it, the library compiled in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/launch/c_edge.h"
#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace {

// How many more allocations of this thread succeed; below zero: all.
thread_local int allocations_left = -1;

}  // namespace

void* operator new(size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kiln {
namespace {

void* const kStream = reinterpret_cast<void*>(0x1000);

class AllocationTest : public testing::Test {
 protected:
  AllocationTest() {
    fake_->Define("k", {.parameter_bytes = {8, 8, 8}});
    fake_->MakeContext();
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK);
    const std::string json = MadeDocument("k", {{"x", "*fp32"}});
    const std::string binary = MadeElf("code");
    const launch::Sha256Digest digest = launch::Sha256(binary);
    kiln_launch_bytes bytes{};
    bytes.size = sizeof bytes;
    bytes.json = json.data();
    bytes.json_bytes = json.size();
    bytes.binary = binary.data();
    bytes.binary_bytes = binary.size();
    bytes.digest = digest.data();
    EXPECT_EQ(kiln_launch_artifact_open_bytes(&bytes, &artifact_), KILN_LAUNCH_OK);
    // The stand-in remembers which functions were called, and needs memory for each the first time.
    kiln_launch_kernel* kernel = nullptr;
    EXPECT_EQ(Open(&kernel), KILN_LAUNCH_OK);
    EXPECT_EQ(kiln_launch_prepare(kernel), KILN_LAUNCH_OK);
    kiln_launch_kernel_close(kernel);
  }
  ~AllocationTest() override {
    kiln_launch_artifact_close(artifact_);
    kiln_launch_close(runtime_);
    fake_->SetCurrent(nullptr);
  }

  kiln_launch_code Open(kiln_launch_kernel** kernel) {
    return kiln_launch_kernel_open(runtime_, artifact_, -1, kernel);
  }
  static kiln_launch_code Launch(kiln_launch_kernel* kernel) {
    kiln_launch_config config{};
    config.size = sizeof config;
    config.grid[0] = config.grid[1] = config.grid[2] = 1;
    config.stream = kStream;
    const uint64_t x = 0;
    const void* arguments[] = {&x};
    return kiln_launch_enqueue(kernel, &config, arguments, 1);
  }
  template <typename Call>
  static kiln_launch_code WithAllocations(int count, Call call) {
    allocations_left = count;
    const kiln_launch_code code = call();
    allocations_left = -1;
    return code;
  }
  kiln_launch_stats Stats() {
    kiln_launch_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(kiln_launch_get_stats(runtime_, &stats), KILN_LAUNCH_OK);
    return stats;
  }

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  kiln_launch_artifact* artifact_ = nullptr;
};

TEST_F(AllocationTest, AnOpenWithoutMemoryLeavesNothingBehind) {
  int failures = 0;
  kiln_launch_kernel* kernel = nullptr;
  while (WithAllocations(failures, [&] { return Open(&kernel); }) != KILN_LAUNCH_OK) {
    ++failures;
    EXPECT_EQ(kernel, nullptr);
    EXPECT_EQ(Stats().kernels_open, 0u) << "without allocation number " << failures;
    EXPECT_EQ(kiln_launch_trim(runtime_), KILN_LAUNCH_OK);
    kiln_launch_kernel* second = nullptr;
    ASSERT_EQ(Open(&second), KILN_LAUNCH_OK);
    EXPECT_EQ(kiln_launch_prepare(second), KILN_LAUNCH_OK) << kiln_launch_error();
    kiln_launch_kernel_close(second);
    ASSERT_EQ(fake_->loaded(), 0) << "without allocation number " << failures;
  }
  EXPECT_GT(failures, 2) << "the handle, the kernel and its entry, at least";
  EXPECT_EQ(Stats().kernels_open, 1u);
  kiln_launch_kernel_close(kernel);
  EXPECT_EQ(Stats().kernels_open, 0u);
}

TEST_F(AllocationTest, WithoutMemoryNothingIsSaidOfTheFailureBefore) {
  kiln_launch_kernel* kernel = nullptr;
  EXPECT_EQ(kiln_launch_kernel_open(runtime_, artifact_, 7, &kernel), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_NE(kiln_launch_driver_result(), 0);
  EXPECT_EQ(WithAllocations(0, [&] { return Open(&kernel); }), KILN_LAUNCH_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(kiln_launch_error(), "");
  EXPECT_EQ(kiln_launch_driver_result(), 0);
}

// Fails each allocation of `call` in turn, until it needs no more; how many that were.
template <typename Call>
int FailEachAllocation(const Call& call) {
  for (int count = 0;; ++count) {
    SCOPED_TRACE(count);
    allocations_left = count;
    const kiln_launch_code code = call();
    allocations_left = -1;
    if (code == KILN_LAUNCH_OK) return count;
    EXPECT_EQ(code, KILN_LAUNCH_RESOURCE_EXHAUSTED);
  }
}

TEST_F(AllocationTest, APrepareWithoutMemoryLeavesNothingLoaded) {
  kiln_launch_kernel* kernel = nullptr;
  ASSERT_EQ(Open(&kernel), KILN_LAUNCH_OK);
  // The first size of a parameter finds no room.
  fake_->OnCall("cuFuncGetAttribute", [] { allocations_left = 0; });
  EXPECT_EQ(WithAllocations(-1, [&] { return kiln_launch_prepare(kernel); }),
            KILN_LAUNCH_RESOURCE_EXHAUSTED);
  EXPECT_EQ(fake_->loaded(), 0);
  EXPECT_EQ(Stats().kernels_resident, 0u);
  fake_->OnCall("cuFuncGetAttribute", [] {});
  EXPECT_EQ(kiln_launch_prepare(kernel), KILN_LAUNCH_OK);
  EXPECT_EQ(Stats().kernels_resident, 1u);
  kiln_launch_kernel_close(kernel);
}

TEST_F(AllocationTest, EachLaunchThatAHookHasSeenBeginEndsForIt) {
  struct Seen {
    int begun = 0;
    int ended = 0;
    int exhausted = 0;
  } seen;
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.times_launches = 1;
  settings.hook_user = &seen;
  settings.enter_hook = [](void* user, const kiln_launch_event*) {
    ++static_cast<Seen*>(user)->begun;
  };
  settings.exit_hook = [](void* user, const kiln_launch_event* event) {
    ++static_cast<Seen*>(user)->ended;
    static_cast<Seen*>(user)->exhausted += event->code == KILN_LAUNCH_RESOURCE_EXHAUSTED ? 1 : 0;
  };
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  kiln_launch_kernel* kernel = nullptr;
  ASSERT_EQ(Open(&kernel), KILN_LAUNCH_OK);
  ASSERT_EQ(kiln_launch_prepare(kernel), KILN_LAUNCH_OK);
  const int failures = FailEachAllocation([&] { return Launch(kernel); });
  EXPECT_GT(failures, 0);
  EXPECT_EQ(seen.begun, failures + 1);
  EXPECT_EQ(seen.ended, seen.begun);
  EXPECT_EQ(seen.exhausted, failures);
  kiln_launch_kernel_close(kernel);
}

// After a failure the caller launches again.
TEST_F(AllocationTest, NoLaunchThatTheDriverTookHasFailed) {
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.times_launches = 1;
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  kiln_launch_kernel* kernel = nullptr;
  ASSERT_EQ(Open(&kernel), KILN_LAUNCH_OK);
  ASSERT_EQ(kiln_launch_prepare(kernel), KILN_LAUNCH_OK);
  ASSERT_EQ(Launch(kernel), KILN_LAUNCH_OK);  // the stand-in has met them all
  // The driver's own memory is not what runs out.
  fake_->OnCall("cuLaunchKernelEx", [] { allocations_left = -1; });
  int records = 0;
  fake_->OnCall("cuEventRecord", [&] { allocations_left = ++records % 2 == 0 ? 0 : -1; });
  constexpr int kLaunches = 100;
  const size_t before = fake_->launches().size();
  for (int i = 0; i < kLaunches; ++i) {
    const kiln_launch_code code = WithAllocations(-1, [&] { return Launch(kernel); });
    ASSERT_EQ(code, KILN_LAUNCH_OK) << i;
  }
  EXPECT_EQ(fake_->launches().size(), before + kLaunches);
  kiln_launch_kernel_close(kernel);
}

TEST_F(AllocationTest, AGraphIsForgottenWhateverFailedWhileItWasCaptured) {
  kiln_launch_kernel* kernel = nullptr;
  ASSERT_EQ(Open(&kernel), KILN_LAUNCH_OK);
  ASSERT_EQ(kiln_launch_prepare(kernel), KILN_LAUNCH_OK);
  // The driver itself has memory, and so has what comes after it here.
  fake_->OnCall("cuUserObjectCreate", [] { allocations_left = -1; });
  const int failures = FailEachAllocation([&] {
    const int left = std::exchange(allocations_left, -1);
    fake_->BeginCapture(kStream);
    allocations_left = left;
    const kiln_launch_code code = Launch(kernel);
    allocations_left = -1;
    fake_->DestroyGraph(fake_->EndCapture(kStream));
    EXPECT_EQ(Stats().live_graphs, 0u);
    return code;
  });
  EXPECT_GT(failures, 2) << "its record, its name's entry and the watch, at least";
  kiln_launch_kernel_close(kernel);
}

TEST(ReportExceptionTest, NoMemoryForTheWordsEndsNoProcess) {
  const auto failure = std::make_exception_ptr(std::runtime_error(std::string(100, 'x')));
  const auto code = [&] {
    return launch::Guarded([&]() -> launch::Status { std::rethrow_exception(failure); });
  };
  EXPECT_EQ(code(), KILN_LAUNCH_INTERNAL);
  EXPECT_EQ(launch::last_error().words, std::string(100, 'x'));
  std::string().swap(launch::last_error().words);
  allocations_left = 0;
  const kiln_launch_code without_memory = code();
  allocations_left = -1;
  EXPECT_EQ(without_memory, KILN_LAUNCH_RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace kiln
