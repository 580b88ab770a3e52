// Buffers that are written and overlapped, in a plan that has many.
#include <gmock/gmock.h>

#include "tests/unit/client/graph/run/bound_plan_fixture.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

// More outputs than are sorted at once.
Segment ManyOutputs() {
  SegmentMaker maker;
  const int x = maker.Input({maker.Symbol("n", 1, 1000, 64)});
  for (int i = 0; i < 1500; ++i) maker.Output(maker.Add("Exp", {x}));
  return maker.segment();
}

class ManyOutputsTest : public BoundPlanTest {
 protected:
  ManyOutputsTest() : BoundPlanTest(ManyOutputs()) {
    for (uint64_t& buffer : buffers_) buffer += uint64_t{1} << 40;  // apart from the workspace
  }
};

TEST_F(ManyOutputsTest, AnyTwoThatOverlapAreFound) {
  for (size_t number = 0; number < plan_.kernels().size(); ++number) SetArtifact(number);
  const std::vector<uint64_t> apart = buffers_;
  for (const auto& [one, other] : {std::pair{1, 2}, {3, 1490}, {1400, 7}, {1300, 1499}}) {
    buffers_ = apart;
    buffers_[static_cast<size_t>(one)] = apart[static_cast<size_t>(other)];
    EXPECT_THAT(Refusal(Whole()), HasSubstr("is written and overlaps buffer v"));
  }
  buffers_ = apart;
  buffers_[0] = apart[1450];
  EXPECT_EQ(Refusal(Whole()), "buffer v1450 is written and overlaps buffer v0");
}

}  // namespace
}  // namespace kiln::graph
