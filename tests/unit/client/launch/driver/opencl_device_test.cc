#include "client/launch/driver/opencl_device.h"

#include <gtest/gtest.h>

#include "client/launch/driver/opencl_driver.h"

namespace kiln::launch {
namespace {

TEST(NewestSpirvTest, IsTheGreatestOfTheList) {
  EXPECT_EQ(NewestSpirv("SPIR-V_1.0 SPIR-V_1.4 SPIR-V_1.2"), "1.4");
  EXPECT_EQ(NewestSpirv("SPIR-V_1.10 SPIR-V_1.9 OTHER_7.0"), "1.10");
  EXPECT_EQ(NewestSpirv(""), "");
  EXPECT_EQ(NewestSpirv("SPIR_1.2"), "");
}

TEST(OpenClCallsTest, FailureNamesFunctionAndError) {
  const Status status = OpenClCalls::Failure(-52, "clEnqueueNDRangeKernel");
  EXPECT_EQ(status.message(), "clEnqueueNDRangeKernel: CL_INVALID_KERNEL_ARGS (-52)");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.driver_result(), -52);
  EXPECT_EQ(OpenClCalls::Failure(-6, "f").code(), Code::kResourceExhausted);
  EXPECT_EQ(OpenClCalls::Failure(-7777, "f").message(), "f: unknown error (-7777)");
}

TEST(OpenClDriverOpenTest, FailureNamesItsReason) {
  EXPECT_EQ(OpenClDriver::Open("/nowhere/libOpenCL.so.1").status().code(), Code::kUnavailable);
  EXPECT_EQ(OpenClDriver::Open("libc.so.6").status().message(),
            "libc.so.6 has no clGetPlatformIDs: a loader for OpenCL 2.1 or later is needed");
}

}  // namespace
}  // namespace kiln::launch
