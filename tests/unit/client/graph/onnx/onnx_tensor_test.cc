// Constants of ONNX models, in the file and beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "client/graph/onnx/onnx_reader.h"
#include "tests/testing/graph/onnx_maker.h"
#include "tests/testing/temp_directory.h"

namespace kiln::graph {
namespace {

class OnnxTensorTest : public testing::Test {
 protected:
  std::string Folder() const { return directory_.path() + "/model"; }
  void SetUp() override {
    std::filesystem::create_directories(Folder() + "/sub");
    Write("model/data", "0123456789abcdef");
    Write("secret", "0123456789abcdef");
  }
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(directory_.path() + "/" + name) << content;
  }
  absl::StatusOr<std::string> Bytes(const OnnxTensorParts& tensor) const {
    const OnnxMaker model{.initializers = {OnnxTensorBytes(tensor)}};
    const auto segment = ReadOnnxBytes(model.Bytes(), Folder(), {});
    if (!segment.ok()) return segment.status();
    const auto bytes = segment->values.at(0).bytes;
    return bytes ? *bytes : "none";
  }
  std::string WhyNot(const OnnxTensorParts& tensor) const {
    return std::string(Bytes(tensor).status().message());
  }
  absl::StatusOr<std::string> External(const std::string& location, const std::string& offset,
                                       const std::string& length) const {
    return Bytes({.name = "w",
                  .dims = {2},
                  .external = {{"location", location}, {"offset", offset}, {"length", length}}});
  }

  const TempDirectory directory_;
};

TEST_F(OnnxTensorTest, ElementsAreRawOrNumbersOfTheirType) {
  EXPECT_EQ(*Bytes({.name = "w", .dims = {2}, .raw = "abcdefgh"}), "abcdefgh");
  EXPECT_EQ(*Bytes({.name = "w", .type = 3, .dims = {2}, .int32s = {-1, 65}}),
            "\xff"
            "A");
  EXPECT_EQ(*Bytes({.name = "w", .type = 10, .dims = {1}, .int32s = {0x4142}}), "BA");
  EXPECT_EQ(*Bytes({.name = "w", .type = 22, .dims = {3}, .int32s = {0x41, 0x42}}), "AB");
  EXPECT_EQ(*Bytes({.name = "w", .dims = {0, 5}}), "");
}

TEST_F(OnnxTensorTest, StringsAreOpaque) {
  EXPECT_EQ(*Bytes({.name = "w", .type = 8, .dims = {1}}), "none");
}

TEST_F(OnnxTensorTest, DataThatDoesNotFitTheShapeIsRefused) {
  EXPECT_EQ(WhyNot({.name = "w", .dims = {3}, .raw = "abcdefgh"}),
            "tensor \"w\": its data has 8 bytes, its shape takes 12");
  EXPECT_EQ(WhyNot({.name = "w", .dims = {3}, .floats = {1}}),
            "tensor \"w\": its data has 4 bytes, its shape takes 12");
  EXPECT_EQ(WhyNot({.name = "w", .dims = {-3}}), "tensor \"w\": a dimension is negative");
  EXPECT_EQ(WhyNot({.name = "w", .dims = {int64_t{1} << 40, int64_t{1} << 40}}),
            "tensor \"w\": it takes over 17179869184 bytes");
}

TEST_F(OnnxTensorTest, ExternalDataLiesInTheModelsFolder) {
  EXPECT_EQ(*External("data", "4", "8"), "456789ab");
  std::filesystem::create_symlink("../data", Folder() + "/sub/link");
  EXPECT_EQ(*External("sub/link", "0", "8"), "01234567");
}

TEST_F(OnnxTensorTest, ExternalDataOutsideTheModelsFolderIsRefused) {
  std::filesystem::create_symlink("../secret", Folder() + "/link");
  for (const std::string& location :
       {std::string("../secret"), std::string("sub/../../secret"), std::string("link")}) {
    EXPECT_EQ(External(location, "0", "8").status().message(),
              "tensor \"w\": external data \"" + location + "\" lies outside the model's folder");
  }
  EXPECT_EQ(External(directory_.path() + "/model/data", "0", "8").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(External("", "0", "8").ok());
  EXPECT_FALSE(External("sub", "0", "8").ok());
  EXPECT_FALSE(External("missing", "0", "8").ok());
}

// As Hugging Face's cache is laid out.
TEST_F(OnnxTensorTest, ExternalDataOfALinkedModelLiesBesideTheFileBehindTheLink) {
  std::filesystem::create_directories(directory_.path() + "/blobs");
  std::filesystem::create_directories(directory_.path() + "/snapshots/1/onnx");
  const std::string folder = directory_.path() + "/snapshots/1/onnx/";
  const OnnxMaker model{
      .initializers = {OnnxTensorBytes(
          {.name = "w", .dims = {2}, .external = {{"location", "model.onnx_data"}}})}};
  Write("blobs/11", model.Bytes());
  Write("blobs/22", "01234567");
  std::filesystem::create_symlink("../../../blobs/11", folder + "model.onnx");
  std::filesystem::create_symlink("../../../blobs/22", folder + "model.onnx_data");
  const auto segment = ReadOnnx(folder + "model.onnx", {});
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(*segment->values.at(0).bytes, "01234567");
  std::filesystem::remove(folder + "model.onnx_data");
  std::filesystem::create_symlink("../../../secret", folder + "model.onnx_data");
  EXPECT_THAT(std::string(ReadOnnx(folder + "model.onnx", {}).status().message()),
              testing::HasSubstr("lies outside the model's folder"));
}

TEST_F(OnnxTensorTest, ExternalDataThatIsTruncatedOrMiscountedIsRefused) {
  EXPECT_EQ(External("data", "12", "8").status().message(),
            "tensor \"w\": external data \"data\" is truncated: bytes 12 to 20 of 16");
  EXPECT_EQ(External("data", "0", "4").status().message(),
            "tensor \"w\": its external data has 4 bytes, its shape takes 8");
  EXPECT_EQ(External("data", "18446744073709551615", "8").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(External("data", "-4", "8").status().message(),
            "tensor \"w\": \"-4\" is no offset or length");
}

}  // namespace
}  // namespace kiln::graph
