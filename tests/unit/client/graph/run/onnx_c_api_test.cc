// kiln_graph_segment_open_onnx as a program uses it.
#include <gtest/gtest.h>

#include <string>

#include "client/graph/c_api/kiln_graph.h"
#include "tests/testing/graph/onnx_maker.h"
#include "tests/testing/temp_directory.h"

namespace kiln::graph {
namespace {

class OnnxCApiTest : public testing::Test {
 protected:
  OnnxCApiTest() {
    const OnnxMaker model{.nodes = {OnnxNodeBytes("Relu", {"x"}, {"y"})},
                          .inputs = {OnnxValue("x", {"batch", "length"})},
                          .outputs = {OnnxValue("y", {})}};
    WriteFileOrDie(path_, model.Bytes());
  }
  ~OnnxCApiTest() override { kiln_graph_segment_close(segment_); }

  const TempDirectory directory_;
  const std::string path_ = directory_.File("model.onnx");
  kiln_graph_segment* segment_ = nullptr;
};

TEST_F(OnnxCApiTest, DimensionsThatAModelLeavesOpenHaveTheCallersRanges) {
  kiln_graph_symbol length{};
  length.size = sizeof length;
  length.name = "length";
  length.min = length.max = 8;
  const kiln_graph_symbol* const dimensions[] = {&length};
  ASSERT_EQ(kiln_graph_segment_open_onnx(path_.c_str(), dimensions, 1, &segment_), KILN_GRAPH_OK)
      << kiln_graph_error();
  kiln_graph_value y{};
  y.size = sizeof y;
  ASSERT_EQ(kiln_graph_segment_get_value(segment_, 1, &y), KILN_GRAPH_OK) << kiln_graph_error();
  EXPECT_STREQ(y.name, "y");
  ASSERT_EQ(y.rank, 2u);
  EXPECT_STREQ(y.shape[0], "batch");
  EXPECT_STREQ(y.shape[1], "8");
}

TEST_F(OnnxCApiTest, AFileThatIsNoModelIsRefusedByItsName) {
  WriteFileOrDie(path_, "no model");
  EXPECT_EQ(kiln_graph_segment_open_onnx(path_.c_str(), nullptr, 0, &segment_),
            KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kiln_graph_error()).find(path_), std::string::npos);
  EXPECT_EQ(kiln_graph_segment_open_onnx(path_.c_str(), nullptr, 1, &segment_),
            KILN_GRAPH_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kiln::graph
