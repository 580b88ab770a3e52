#include <gmock/gmock.h>

#include "tests/testing/graph/program_interpreter.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;

// The sum over a dimension of stride 0, in memory that has `elements` elements.
std::vector<double> SumOfRepeated(SegmentMaker& maker, const Size& extent,
                                  const std::vector<int64_t>& symbols,
                                  const std::vector<double>& elements) {
  const int x = maker.Input({extent}, DType::kF32, std::vector<Size>{0});
  maker.Output(maker.Add("ReduceSum", {x}, {{"keepdims", 0}}));
  const auto programs = Lower(maker.segment(), maker.segment().operations[0]);
  EXPECT_TRUE(programs.ok()) << programs.status();
  std::vector<TestBuffer> buffers = {TestBuffer::Of(DType::kF32, elements), {DType::kF32, 1}};
  const absl::Status status = Interpret(programs->front(), symbols, buffers);
  EXPECT_TRUE(status.ok()) << status;
  return buffers.back().Numbers();
}

TEST(SectionElementsTest, NothingIsReadOfAnEmptyDimensionThatRepeats) {
  SegmentMaker maker;
  EXPECT_THAT(SumOfRepeated(maker, 0, {}, {}), ElementsAre(0));
}

TEST(SectionElementsTest, ADimensionThatRepeatsMayBeEmptyAtRunTime) {
  SegmentMaker empty;
  EXPECT_THAT(SumOfRepeated(empty, empty.Symbol("n", 0, 8, 4), {0}, {}), ElementsAre(0));
  SegmentMaker full;
  EXPECT_THAT(SumOfRepeated(full, full.Symbol("n", 0, 8, 4), {3}, {5}), ElementsAre(15));
}

}  // namespace
}  // namespace kiln::graph
