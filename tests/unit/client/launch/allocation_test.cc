// kiln_launch.h where memory runs out. A program of its own, as it replaces operator new for all of
// it, the library compiled in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "client/launch/kiln_launch.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/launch_artifacts.h"

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
  }
  ~AllocationTest() override {
    kiln_launch_artifact_close(artifact_);
    kiln_launch_close(runtime_);
    fake_->SetCurrent(nullptr);
  }

  kiln_launch_code Open(kiln_launch_kernel** kernel) {
    return kiln_launch_kernel_open(runtime_, artifact_, -1, kernel);
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

}  // namespace
}  // namespace kiln
