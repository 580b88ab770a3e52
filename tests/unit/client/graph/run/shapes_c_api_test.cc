// Observed shapes, and kernels for parts of a range, as a program in C has them.
#include <gmock/gmock.h>

#include <string>

#include "client/graph/c_api/kiln_graph.h"
#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kLayer[] = R"({"kiln_segment": 1, "name": "layer",
 "symbols": [{"name": "tokens", "min": 1, "max": 8192, "typical": 2048}],
 "values": [
  {"name": "x", "type": "f16", "shape": ["tokens", 4096], "role": "input"},
  {"name": "w", "type": "f16", "shape": [4096, 4096], "role": "constant"},
  {"name": "y", "type": "f16", "shape": ["tokens", 4096], "role": "output"}],
 "operations": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}]})";

class ShapesCApiTest : public testing::Test {
 protected:
  ShapesCApiTest() {
    kiln_launch_open_options opening{};
    opening.size = sizeof opening;
    opening.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&opening, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
    EXPECT_EQ(kiln_graph_segment_open_json(kLayer, sizeof kLayer - 1, &segment_), KILN_GRAPH_OK);
    Plan(0);
  }
  ~ShapesCApiTest() override {
    kiln_graph_bound_close(bound_);
    kiln_graph_plan_close(plan_);
    kiln_graph_segment_close(segment_);
    kiln_launch_close(runtime_);
  }
  void Plan(uint32_t no_splits) {
    kiln_graph_plan_close(plan_);
    kiln_graph_plan_options options{};
    options.size = sizeof options;
    options.target = "cuda:90";
    options.no_splits = no_splits;
    ASSERT_EQ(kiln_graph_plan_open(segment_, &options, &plan_), KILN_GRAPH_OK)
        << kiln_graph_error();
  }
  uint32_t Kernels() const {
    kiln_graph_plan_info info{};
    info.size = sizeof info;
    EXPECT_EQ(kiln_graph_plan_get_info(plan_, &info), KILN_GRAPH_OK);
    return info.kernels;
  }
  void Bind() { ASSERT_EQ(kiln_graph_bind(plan_, runtime_, 0, &bound_), KILN_GRAPH_OK); }
  // Nothing is loaded: executions are refused, and observed.
  void AskFor(int64_t tokens) {
    const uint64_t buffers[3] = {0x10000, 0x20000, 0x30000};
    kiln_graph_execution execution{};
    execution.size = sizeof execution;
    execution.buffers = buffers;
    execution.buffer_count = 3;
    execution.symbols = &tokens;
    execution.symbol_count = 1;
    uint32_t next = 0;
    EXPECT_NE(kiln_graph_execute(bound_, &execution, &next), KILN_GRAPH_OK);
  }
  kiln_graph_observed Observed(kiln_graph_code wanted = KILN_GRAPH_OK) const {
    kiln_graph_observed observed{};
    observed.size = sizeof observed;
    EXPECT_EQ(kiln_graph_bound_get_observed(bound_, 0, &observed), wanted) << kiln_graph_error();
    return observed;
  }

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  kiln_graph_segment* segment_ = nullptr;
  kiln_graph_plan* plan_ = nullptr;
  kiln_graph_bound* bound_ = nullptr;
};

TEST_F(ShapesCApiTest, AKernelSaysForWhichPartOfTheRangeItIs) {
  ASSERT_EQ(Kernels(), 2u);
  kiln_graph_kernel kernel{};
  kernel.size = sizeof kernel;
  ASSERT_EQ(kiln_graph_plan_get_kernel(plan_, 0, &kernel), KILN_GRAPH_OK);
  EXPECT_STREQ(kernel.split, "tokens up to 256: smaller tiles");
  ASSERT_EQ(kiln_graph_plan_get_kernel(plan_, 1, &kernel), KILN_GRAPH_OK);
  EXPECT_STREQ(kernel.split, "");
  Plan(1);
  EXPECT_EQ(Kernels(), 1u);
}

TEST_F(ShapesCApiTest, ObservedSizesBecomeTheSegmentsRanges) {
  Bind();
  Observed(KILN_GRAPH_FAILED_PRECONDITION);
  ASSERT_EQ(kiln_graph_bound_observe(bound_), KILN_GRAPH_OK);
  EXPECT_EQ(Observed().range.max, 8192);
  for (const int64_t tokens : {320, 9600, 9600}) AskFor(tokens);
  const kiln_graph_observed observed = Observed();
  EXPECT_EQ(observed.executions, 3u);
  EXPECT_STREQ(observed.range.name, "tokens");
  ASSERT_EQ(observed.size_count, 2u);
  EXPECT_EQ(observed.sizes[1], 9600);
  EXPECT_EQ(observed.counts[1], 2u);
  ASSERT_EQ(kiln_graph_segment_set_ranges(segment_, bound_), KILN_GRAPH_OK) << kiln_graph_error();
  const char* json = nullptr;
  ASSERT_EQ(kiln_graph_segment_get_json(segment_, &json, nullptr), KILN_GRAPH_OK);
  EXPECT_THAT(json, HasSubstr(R"("min":320)"));
  EXPECT_THAT(json, HasSubstr(R"("max":9600)"));
  EXPECT_THAT(json, HasSubstr(R"("multiple_of":64)"));
  Plan(0);
  EXPECT_EQ(Kernels(), 1u) << "there are no few tokens any more";
}

TEST_F(ShapesCApiTest, RangesAreNotSetInAnotherSegment) {
  Bind();
  ASSERT_EQ(kiln_graph_bound_observe(bound_), KILN_GRAPH_OK);
  kiln_graph_segment* other = nullptr;
  ASSERT_EQ(kiln_graph_segment_open("other", &other), KILN_GRAPH_OK);
  EXPECT_EQ(kiln_graph_segment_set_ranges(other, bound_), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("other symbols"));
  kiln_graph_segment_close(other);
}

}  // namespace
}  // namespace kiln
