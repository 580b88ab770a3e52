#include "client/launch/tensor_descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "client/launch/driver/cuda_driver.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kTwoDescriptors =
    R"({"tensor_descriptors": [
        {"swizzle": 1, "elem_size": 4, "elem_type": 7, "block_size": [8], "fp4_padded": false},
        {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [128, 64],
         "fp4_padded": false}]})";
const Parameters kMaps = {{"a", "!tt.tensordesc<tensor<8xf32>>"},
                          {"", "i32"},
                          {"", "i64"},
                          {"b", "!tt.tensordesc<tensor<128x64xbf16>>"},
                          {"", "i32"},
                          {"", "i32"},
                          {"", "i64"},
                          {"", "i64"},
                          {"n", "i32"}};

class TensorDescriptorTest : public testing::Test {
 protected:
  StatusOr<std::unique_ptr<TensorDescriptor>> Make(const Parameters& parameters,
                                                   const std::string& patch, size_t parameter) {
    const auto read = ParseDescription(MadeDocument("k", parameters, patch));
    return TensorDescriptor::Make(*driver_, read->metadata, parameter, tensor_);
  }
  template <typename T>
  static T At(const std::vector<const void*>& arguments, size_t index) {
    T value;
    std::memcpy(&value, arguments[index], sizeof value);
    return value;
  }
  FakeCudaLibrary fake_;
  std::unique_ptr<Driver> driver_ = *CudaDriver::Open(fake_.path());
  kiln_launch_tensor tensor_{0, 2, 0xabcd00, {1000, 512}, {2048, 1}, 0, 0};
};

TEST_F(TensorDescriptorTest, PassesTheMapByValueThenShapeAndStrides) {
  const auto made = Make(kMaps, kTwoDescriptors, 3);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto& arguments = (*made)->arguments();
  ASSERT_EQ(arguments.size(), 5u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arguments[0]) % 64, 0u);
  const auto words = At<std::array<uint64_t, 16>>(arguments, 0);
  EXPECT_EQ(words[0], 9u);  // the device's 10 is the driver's BFLOAT16
  EXPECT_EQ(words[1], 2u);
  EXPECT_EQ(words[2], 3u);
  EXPECT_EQ(words[3], 0u);
  EXPECT_EQ(words[4], 0xabcd00u);
  EXPECT_EQ(words[5], 512u);  // the fastest dimension first
  EXPECT_EQ(words[6], 1000u);
  EXPECT_EQ(words[7], 2048u * 2);
  EXPECT_EQ(words[8], 64u);
  EXPECT_EQ(words[9], 128u);
  EXPECT_EQ(At<int32_t>(arguments, 1), 1000);
  EXPECT_EQ(At<int32_t>(arguments, 2), 512);
  EXPECT_EQ(At<int64_t>(arguments, 3), 2048);
  EXPECT_EQ(At<int64_t>(arguments, 4), 1);
}

TEST_F(TensorDescriptorTest, NanAndTf32AreInTheMap) {
  tensor_ = {0, 1, 0x100, {64}, {1}, 1, 1};
  const auto made = Make(kMaps, kTwoDescriptors, 0);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto words = At<std::array<uint64_t, 16>>((*made)->arguments(), 0);
  EXPECT_EQ(words[0], 11u);
  EXPECT_EQ(words[3], 1u);
}

// Triton 3.6 passes the doubled length as an argument too, later versions do not.
TEST_F(TensorDescriptorTest, APaddedLengthIsDoubledAsTheVersionOfTritonHasIt) {
  const std::pair<const char*, int> conventions[] = {
      {R"(, "toolchain_metadata": "{\"triton_version\": \"3.6.0\"}")", 1024},
      {R"(, "toolchain_metadata": {"triton_version": "3.6.0+git1234"})", 1024},
      {R"(, "toolchain_metadata": "{\"triton_version\": \"3.7.1\"}")", 512},
      {R"(, "toolchain_metadata": "{\"triton_version\": \"3.10.0\"}")", 512},
      {R"(, "toolchain_metadata": "neither")", 512},
      {"", 512}};
  for (const auto& [told, length] : conventions) {
    const auto made = Make(kMaps,
                           std::string(R"({"tensor_descriptors": [{}, {"swizzle": 3, "elem_size": 1,
                               "elem_type": 0, "block_size": [128, 64], "fp4_padded": true}])") +
                               told + "}",
                           3);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto& arguments = (*made)->arguments();
    EXPECT_EQ((At<std::array<uint64_t, 16>>(arguments, 0)[5]), 1024u) << told;
    EXPECT_EQ(At<int32_t>(arguments, 1), 1000) << told;
    EXPECT_EQ(At<int32_t>(arguments, 2), length) << told;
  }
}

TEST_F(TensorDescriptorTest, AnIm2colDescriptorIsRefusedByItsName) {
  const auto made = Make(kMaps,
                         R"({"tensor_descriptors": [{}, {"block_size": [128, 64]}],
                             "toolchain_metadata": {"tensordesc_meta": [{}, {"is_im2col": true}]}})",
                         3);
  EXPECT_EQ(made.status().code(), Code::kUnimplemented);
  EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr("im2col"));
}

TEST_F(TensorDescriptorTest, DeviceWithoutTmaGetsPointerLengthsAndFlags) {
  Parameters parameters = {{"a", "*f16"}, {"", "i64"}, {"", "i64"}, {"", "i64"}, {"", "i64"},
                           {"", "i1"},    {"", "i32"}, {"", "i32"}, {"", "i64"}, {"", "i64"}};
  tensor_.fills_with_nan = 1;
  const auto made = Make(parameters, "{}", 0);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto& arguments = (*made)->arguments();
  ASSERT_EQ(arguments.size(), 10u);
  EXPECT_EQ(At<uint64_t>(arguments, 0), 0xabcd00u);
  EXPECT_EQ(At<int64_t>(arguments, 1), 1000);
  EXPECT_EQ(At<int64_t>(arguments, 3), 2048);
  EXPECT_EQ(At<uint8_t>(arguments, 5), 1);
  EXPECT_EQ(At<int32_t>(arguments, 7), 512);
  EXPECT_EQ(At<int64_t>(arguments, 8), 2048);
  // Triton from 3.7 on has one flag more.
  parameters.insert(parameters.begin() + 5, {"", "i1"});
  EXPECT_EQ((*Make(parameters, "{}", 0))->arguments().size(), 11u);
}

TEST_F(TensorDescriptorTest, ParameterThatBeginsNoDescriptorIsAnError) {
  for (const size_t parameter : {size_t{0}, size_t{1}, size_t{4}, size_t{8}, size_t{9}}) {
    EXPECT_EQ(Make(kMaps, kTwoDescriptors, parameter).status().code(), Code::kInvalidArgument)
        << parameter;
  }
  EXPECT_FALSE(Make({{"a", "*f16"}, {"n", "i32"}}, "{}", 0).ok());
  EXPECT_FALSE(Make(kMaps, "{}", 3).ok());
}

TEST_F(TensorDescriptorTest, InvalidTensorIsAnError) {
  const kiln_launch_tensor good = tensor_;
  tensor_.strides[1] = 2;
  EXPECT_FALSE(Make(kMaps, kTwoDescriptors, 3).ok());
  tensor_ = good;
  tensor_.shape[0] = 0;
  EXPECT_FALSE(Make(kMaps, kTwoDescriptors, 3).ok());
  tensor_ = good;
  tensor_.rank = 6;
  EXPECT_FALSE(Make(kMaps, kTwoDescriptors, 3).ok());
  for (const int64_t stride : {int64_t{-2048}, std::numeric_limits<int64_t>::max() / 2 + 2049}) {
    tensor_ = good;
    tensor_.strides[0] = stride;
    EXPECT_THAT(std::string(Make(kMaps, kTwoDescriptors, 3).status().message()),
                testing::HasSubstr(fmt::format("a stride of {}", stride)));
  }
  tensor_ = good;
  fake_->Fail("cuTensorMapEncodeTiled", 1);
  EXPECT_EQ(Make(kMaps, kTwoDescriptors, 3).status().driver_result(), 1);
}

TEST_F(TensorDescriptorTest, OnlyFloat32IsRoundedToTf32) {
  tensor_ = {0, 1, 0xabcd00, {64}, {1}, 0, /*rounds_to_tf32=*/1};
  const auto rounded = Make(kMaps, kTwoDescriptors, 0);
  ASSERT_TRUE(rounded.ok()) << rounded.status().message();
  EXPECT_EQ((At<std::array<uint64_t, 16>>((*rounded)->arguments(), 0)[0]), 11u);
  tensor_ = {0, 2, 0xabcd00, {1000, 512}, {2048, 1}, 0, /*rounds_to_tf32=*/1};
  EXPECT_EQ(Make(kMaps, kTwoDescriptors, 3).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kiln::launch
