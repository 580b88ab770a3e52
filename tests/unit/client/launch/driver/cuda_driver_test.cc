#include "client/launch/driver/cuda_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/launch/fake_cuda.h"

namespace kiln::launch {
namespace {

using testing::HasSubstr;

TEST(CudaDriverTest, MissingLibraryIsUnavailable) {
  const auto driver = CudaDriver::Open("/nowhere/libcuda.so.1");
  EXPECT_EQ(driver.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("/nowhere/libcuda.so.1"));
}

TEST(CudaDriverTest, RefusesALibraryThatIsNotADriver) {
  const auto driver = CudaDriver::Open("libc.so.6");
  EXPECT_EQ(driver.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("libc.so.6 has no cuInit: a driver for CUDA 12.0 or later is needed"));
}

TEST(CudaDriverTest, MissingDeviceIsUnavailable) {
  FakeCudaLibrary fake;
  fake->Fail("cuInit", 100);
  const auto driver = CudaDriver::Open(fake.path());
  EXPECT_EQ(driver.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("no GPU here: cuInit: CUDA_ERROR_NO_DEVICE (100)"));
}

TEST(CudaDriverTest, DescribesTheDevice) {
  FakeCudaLibrary fake;
  fake->capability_major = 10;
  fake->capability_minor = 3;
  fake->MakeContext();
  const auto driver = *CudaDriver::Open(fake.path());
  const auto device = driver->CurrentDevice();
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->architecture, "103");
  EXPECT_EQ(device->name, "Stand-in GPU");
  EXPECT_EQ(device->shared_bytes_max, 227 << 10);
  EXPECT_EQ(device->grid_max, (std::array<int64_t, 3>{2147483647, 65535, 65535}));
  fake->SetCurrent(nullptr);
}

TEST(CudaDriverTest, AFunctionThatIsNotInTheImageLeavesNothingLoaded) {
  FakeCudaLibrary fake;
  fake->MakeContext();
  const auto driver = *CudaDriver::Open(fake.path());
  const auto code = driver->Load("image", {.name = "missing"});
  EXPECT_THAT(std::string(code.status().message()),
              HasSubstr("cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND (500)"));
  EXPECT_EQ(fake->loaded(), 0);
  fake->SetCurrent(nullptr);
}

}  // namespace
}  // namespace kiln::launch
