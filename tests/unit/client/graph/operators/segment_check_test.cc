#include "client/graph/operators/segment_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

class CheckTest : public testing::Test {
 protected:
  CheckTest() : x_(maker_.Input({4, 8})), y_(maker_.Add("Relu", {x_})) { maker_.Output(y_); }

  Operation& operation() { return maker_.segment().operations[0]; }
  Value& value(int number) { return maker_.segment().values[static_cast<size_t>(number)]; }
  std::string WhyNot() const { return std::string(Check(maker_.segment()).message()); }

  SegmentMaker maker_;
  int x_;
  int y_;
};

TEST_F(CheckTest, AWholeSegmentPasses) { EXPECT_EQ(WhyNot(), ""); }

TEST_F(CheckTest, AnUnknownOperatorGetsTheNearestName) {
  operation().name = "Rellu";
  EXPECT_EQ(WhyNot(), "operation 0: there is no operator Rellu; did you mean Relu?");
}

TEST_F(CheckTest, OfAnOperationThatTheEngineKeepsOnlyTheOrderCounts) {
  operation().name = "my.Rows";
  operation().kept_because = "it counts";
  value(y_).is_opaque = true;
  EXPECT_EQ(WhyNot(), "");
  const auto plan = MakePlan(maker_.segment(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->refusals.size(), 1u);
  EXPECT_EQ(plan->refusals[0].reason, "it counts");
  operation().outputs = {9};
  EXPECT_EQ(WhyNot(), "operation 0 (my.Rows): no value has the number 9");
}

TEST_F(CheckTest, AnOpaqueValueIsTheEnginesAlone) {
  value(x_).is_opaque = true;
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): type or shape of value v0 is not known");
}

TEST_F(CheckTest, TooManyInputsAreCounted) {
  operation().inputs = {x_, x_};
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): it has 2 inputs; Relu takes 1");
}

TEST_F(CheckTest, AnUnknownAttributeIsNamed) {
  operation().attributes["slope"] = 0.5;
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): Relu has no attribute \"slope\"");
}

TEST_F(CheckTest, ANumberOfNoValueIsNamed) {
  operation().inputs = {7};
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): no value has the number 7");
}

TEST_F(CheckTest, TwoProducersOfOneValueAreNamed) {
  maker_.segment().operations.push_back({"Neg", {x_}, {y_}, {}});
  EXPECT_EQ(WhyNot(), "value v1: operation 0 (Relu) and operation 1 (Neg) both write it");
}

TEST_F(CheckTest, ACycleIsNamed) {
  operation().inputs = {y_};
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): it needs its own result: the operations form a cycle");
}

TEST_F(CheckTest, AShapeThatTheOperationDoesNotGiveIsNamed) {
  value(y_).shape = {8, 4};
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): it gives [4, 8], and value v1 has the shape [8, 4]");
}

TEST_F(CheckTest, ATypeThatTheOperationDoesNotGiveIsNamed) {
  value(y_).type = DType::kF16;
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): it gives f32, and value v1 is f16");
}

TEST_F(CheckTest, SizesThatOverflowAreRefused) {
  value(x_).shape = {Size(int64_t{1} << 40), Size(int64_t{1} << 40)};
  EXPECT_EQ(WhyNot(), "value v0: it has more than 281474976710656 elements");
}

TEST_F(CheckTest, StridesThatReachTooFarAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const int64_t stride : {kHuge, int64_t{1} << 47}) {  // the sum overflows, or is too large
    value(x_).strides = {stride, stride};
    EXPECT_EQ(WhyNot(), "value v0: its strides reach more than 281474976710656 elements");
  }
  value(x_).strides = {8, 1};
  value(y_).strides = {int64_t{1} << 48, 1};
  EXPECT_EQ(WhyNot(), "value v1: its strides reach more than 281474976710656 elements");
  value(x_).shape = value(y_).shape = {1, 8};  // no element is that far
  value(x_).strides = value(y_).strides = {kHuge, 1};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, StridesReachTooFarForNoSizeOfTheSymbols) {
  const Size length = maker_.Symbol("length", 0, 64, 32);
  value(x_).shape = value(y_).shape = {4, length};
  value(x_).strides = {int64_t{1} << 40, int64_t{1} << 43};
  EXPECT_EQ(WhyNot(), "value v0: its strides reach more than 281474976710656 elements");
  maker_.segment().symbols[0] = {.name = "length", .min = 0, .max = 32, .typical = 32};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, ANegativeDimensionIsRefused) {
  value(x_).shape = {-4, 8};
  EXPECT_EQ(WhyNot(), "value v0: a dimension is negative");
}

TEST_F(CheckTest, AnOutputWhoseElementsOverlapIsRefused) {
  for (const std::vector<Size>& strides : {std::vector<Size>{0, 1}, {8, 0}, {7, 1}, {2, 2}}) {
    value(y_).strides = strides;
    EXPECT_EQ(WhyNot(), "value v1: an operation writes it, and its elements may overlap");
  }
  for (const std::vector<Size>& strides : {std::vector<Size>{8, 1}, {1, 4}, {20, 2}}) {
    value(y_).strides = strides;
    EXPECT_EQ(WhyNot(), "");
  }
  value(x_).strides = {0, 0};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, AValueBetweenOperationsWhoseElementsOverlapIsRefused) {
  const int z = maker_.Add("Neg", {y_});
  maker_.Output(z);
  value(y_).is_output = false;
  value(y_).strides = {0, 1};
  EXPECT_EQ(WhyNot(), "value v1: an operation writes it, and its elements may overlap");
}

TEST_F(CheckTest, ElementsMayOverlapForNoSizeOfTheSymbols) {
  const Size length = maker_.Symbol("length", 0, 64, 32);
  const Size pitch = maker_.Symbol("pitch", 16, 128, 64);
  value(x_).shape = value(y_).shape = {8, length};
  value(y_).strides = {pitch, 1};
  EXPECT_EQ(WhyNot(), "value v1: an operation writes it, and its elements may overlap");
  for (const std::vector<Size>& strides :
       {std::vector<Size>{length, 1}, {1, 8}, {length + pitch, 1}, {length * 2, 2}}) {
    value(y_).strides = strides;
    EXPECT_EQ(WhyNot(), "");
  }
  maker_.segment().symbols[1].min = 64;
  value(y_).strides = {pitch, 1};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, ADimensionThatIsNegativeForSomeSizesIsRefused) {
  const Size total = maker_.Symbol("total", 0, 64, 32);
  const Size length = maker_.Symbol("length", 0, 32, 16);
  value(x_).shape = value(y_).shape = {total - length, 8};
  EXPECT_EQ(WhyNot(),
            "value v0: dimension total - length may be negative; give the symbol limits that tell");
  maker_.segment().symbols[0].min = 32;
  EXPECT_EQ(WhyNot(), "");
  // Less than that is negative in its terms alone.
  value(x_).shape = value(y_).shape = {(total - Size(1)) * (total - Size(1)), 8};
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, ElementsAreTooManyForNoSizeOfTheSymbols) {
  const Size total = maker_.Symbol("total", 64, 64, 64);
  const Size length = maker_.Symbol("length", 0, 64, 32);
  value(x_).shape = value(y_).shape = {total - length, int64_t{1} << 43};
  EXPECT_EQ(WhyNot(), "value v0: it has more than 281474976710656 elements");
  maker_.segment().symbols[1].min = 32;
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, ANegativeStrideIsRefused) {
  value(x_).strides = {8, -1};
  EXPECT_EQ(WhyNot(), "value v0: a stride is negative");
}

TEST_F(CheckTest, ANameThatTwoValuesHaveIsRefused) {
  value(y_).name = "v0";
  EXPECT_EQ(WhyNot(), "value v0: another value has the same name");
}

TEST_F(CheckTest, AnInputThatNobodyWritesIsNamed) {
  value(x_).is_input = false;
  EXPECT_EQ(WhyNot(), "operation 0 (Relu): value v0 is no input, and no operation writes it");
}

TEST_F(CheckTest, ARangeWithoutAValueIsRefused) {
  maker_.segment().symbols.push_back({"batch", 8, 4, 8, 1});
  EXPECT_THAT(WhyNot(), HasSubstr("symbol batch: its range is not"));
}

TEST_F(CheckTest, ARangeWithoutASizeThatIsAllowedIsRefused) {
  Symbol& symbol = maker_.segment().symbols.emplace_back();
  symbol = {.name = "batch", .min = 5, .max = 7, .typical = 6, .multiple_of = 16};
  EXPECT_EQ(WhyNot(), "symbol batch: no size from 5 to 7 is a multiple of 16");
  symbol.max = 16;
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(CheckTest, DataOfAnotherSizeIsRefused) {
  value(x_).is_constant = true;
  value(x_).bytes = std::make_shared<const std::string>("1234");
  EXPECT_EQ(WhyNot(), "value v0: its data has 4 bytes, its shape takes 128");
}

}  // namespace
}  // namespace kiln::graph
