// kiln_launch.h where memory runs out. A program of its own, as it replaces operator new for all of
// it, the library compiled in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "client/launch/artifact/sha256.h"
#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace {

// Whether this thread's allocations succeed.
thread_local bool may_allocate = true;

}  // namespace

void* operator new(size_t bytes) {
  if (!may_allocate) throw std::bad_alloc();
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

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  kiln_launch_artifact* artifact_ = nullptr;
};

TEST_F(AllocationTest, AnOpenWithoutMemoryIsResourceExhaustedAndHasNoText) {
  kiln_launch_kernel* kernel = nullptr;
  EXPECT_EQ(kiln_launch_kernel_open(runtime_, artifact_, 7, &kernel), KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_NE(kiln_launch_driver_result(), 0);
  may_allocate = false;
  const kiln_launch_code code = kiln_launch_kernel_open(runtime_, artifact_, -1, &kernel);
  may_allocate = true;
  EXPECT_EQ(code, KILN_LAUNCH_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(kiln_launch_error(), "");
  EXPECT_EQ(kiln_launch_driver_result(), 0);
}

}  // namespace
}  // namespace kiln
