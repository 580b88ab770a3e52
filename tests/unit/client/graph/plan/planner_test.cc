#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "client/graph/plan/plan.h"
#include "client/graph/segment/shape.h"
#include "tests/testing/graph/plan_runner.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

Plan PlanOf(const Segment& segment, PlanConfig config = {.keeps_small_sections = true}) {
  auto plan = MakePlan(segment, config);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

std::vector<std::vector<int>> SectionsOf(const Plan& plan) {
  std::vector<std::vector<int>> sections;
  for (const Section& section : plan.sections) sections.push_back(section.operations);
  return sections;
}

TEST(PlannerTest, AChainOfElementwiseOperationsIsOneSection) {
  SegmentMaker maker;
  const int x = maker.Input({1024, 1024});
  const int y = maker.Input({1024});
  maker.Output(maker.Add("Relu", {maker.Add("Mul", {maker.Add("Add", {x, y}), x})}));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(plan.sections[0].inputs, (std::vector<int>{x, y}));
  const auto programs = LowerSection(maker.segment(), plan.sections[0]);
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_EQ(programs->size(), 1u);
  EXPECT_EQ(programs->front().name, "kiln_relu_3");
  EXPECT_EQ(programs->front().buffers.size(), 3u);
}

TEST(PlannerTest, AnOperationOfTheEnginesWithoutOutputsMayReadAView) {
  SegmentMaker maker;
  const int x = maker.Input({4, 8});
  const int view = maker.Add("Transpose", {x});
  maker.Output(maker.Add("Relu", {x}));
  maker.segment().operations.push_back({"Unknown", {view}, {}, {}});
  maker.segment().operations.back().kept_because = "it is the engine's";
  EXPECT_FALSE(PlanOf(maker.segment()).sections.empty());
}

TEST(PlannerTest, WithoutFusionEachOperationIsASection) {
  SegmentMaker maker;
  const int x = maker.Input({1024});
  maker.Output(maker.Add("Relu", {maker.Add("Neg", {x})}));
  EXPECT_EQ(PlanOf(maker.segment(), {.fuses = false, .keeps_small_sections = true}).sections.size(),
            2u);
}

// A sum of sums of so many inputs each.
Segment SumOfSums(int sums, int inputs) {
  SegmentMaker maker;
  std::vector<int> parts;
  for (int i = 0; i < sums; ++i) {
    std::vector<int> summed;
    for (int each = 0; each < inputs; ++each) summed.push_back(maker.Input({1024, 1024}));
    parts.push_back(maker.Add("Sum", std::move(summed)));
  }
  maker.Output(maker.Add("Sum", std::move(parts)));
  return maker.segment();
}

TEST(PlannerTest, ASectionOfSeveralOperationsHasFewParameters) {
  EXPECT_EQ(PlanOf(SumOfSums(2, 60)).sections.size(), 1u);
  const Segment segment = SumOfSums(4, 60);
  const Plan plan = PlanOf(segment);
  EXPECT_EQ(plan.sections.size(), 3u);
  for (const Section& section : plan.sections) EXPECT_LE(section.inputs.size(), 127u);
  EXPECT_THAT(Explain(segment, plan), HasSubstr("a section has at most 128 parameters"));
}

TEST(PlannerTest, ViewsOfOneValueAreOneParameter) {
  SegmentMaker maker;
  const int x = maker.Input({200, 64});
  const int first = maker.Add("Split", {x}, {{"num_outputs", int64_t{200}}}, 200);
  std::vector<int> rows;
  for (int i = 0; i < 200; ++i) rows.push_back(first + 199 - i);
  maker.Output(maker.Add("Concat", std::move(rows), {{"axis", int64_t{1}}}));
  EXPECT_EQ(PlanOf(maker.segment()).sections.size(), 1u);
}

TEST(PlannerTest, AnOutputInTheMiddleIsInMemory) {
  SegmentMaker maker;
  const int x = maker.Input({1024});
  const int middle = maker.Add("Neg", {x});
  maker.Output(middle);
  maker.Output(maker.Add("Relu", {middle}));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(plan.sections[1].inputs, std::vector<int>{middle});
}

TEST(PlannerTest, SmallChainsAreLeftToTheEngine) {
  SegmentMaker maker;
  const int x = maker.Input({1024});
  maker.Output(maker.Add("Relu", {maker.Add("Neg", {x})}));
  const Plan plan = PlanOf(maker.segment(), {});
  EXPECT_EQ(plan.sections.size(), 0u);
  ASSERT_EQ(plan.refusals.size(), 2u);
  EXPECT_EQ(plan.refusals[0].operation, 0);
  EXPECT_EQ(plan.refusals[0].reason, "1024 elements are not worth a kernel of their own");
}

TEST(PlannerTest, ATypeThatIsOffIsLeftToTheEngine) {
  SegmentMaker maker;
  const int x = maker.Input({1024});
  maker.Output(maker.Add("Relu", {x}));
  const Plan plan =
      PlanOf(maker.segment(), {.keeps_small_sections = true, .off = {SectionType::kElementwise}});
  ASSERT_EQ(plan.refusals.size(), 1u);
  EXPECT_EQ(plan.refusals[0].reason, "elementwise sections are switched off");
}

TEST(PlannerTest, WhatARuleDoesNotTakeIsLeftToTheEngine) {
  SegmentMaker maker;
  const int x = maker.Input({9, 9});
  const int y = maker.Add("Relu", {x});
  maker.segment().values.push_back({.name = "determinant"});
  maker.segment().operations.push_back({"Det", {y}, {y + 1}, {}});
  maker.Output(y + 1);
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0}}));
  ASSERT_EQ(plan.refusals.size(), 1u);
  EXPECT_THAT(plan.refusals[0].reason, HasSubstr("more than 8 rows"));
}

TEST(PlannerTest, ExplainsEachChoice) {
  SegmentMaker maker("gate");
  const int x = maker.Input({2048, 1024});
  maker.Output(maker.Add("Relu", {maker.Add("Neg", {x})}));
  const Plan plan = PlanOf(maker.segment());
  const std::string text = Explain(maker.segment(), plan);
  EXPECT_THAT(text, HasSubstr("gate: 2 operations, 1 sections, 0 left to the engine"));
  EXPECT_THAT(text, HasSubstr("section 0, elementwise: v0 -> v2"));
  EXPECT_THAT(text, HasSubstr("fused: Neg (0) into Relu (1): score"));
}

TEST(PlannerTest, ASoftmaxTakesWhatIsBeforeAndBehindIt) {
  SegmentMaker maker;
  const int x = maker.Input({64, 128});
  const int scaled = maker.Add("Mul", {x, maker.Input({1})});
  maker.Output(maker.Add("Neg", {maker.Add("Softmax", {scaled})}));
  const Plan plan = PlanOf(maker.segment(), {});
  ASSERT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(plan.sections[0].type, SectionType::kNormalization);
  const auto programs = LowerSection(maker.segment(), plan.sections[0]);
  ASSERT_TRUE(programs.ok()) << programs.status();
  // Each row's maximum and sum are computed once for the row.
  ASSERT_EQ(programs->front().axes[0].extent, Size(64));
  EXPECT_FALSE(programs->front().axes[0].is_inner);
  EXPECT_TRUE(programs->front().axes[1].is_inner);
}

TEST(PlannerTest, TwoProductsAreTwoSections) {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  const int first = maker.Add("MatMul", {x, x});
  const int second = maker.Add("MatMul", {maker.Add("Relu", {first}), x});
  maker.Output(maker.Add("Add", {second, x}));
  const Plan plan = PlanOf(maker.segment(), {});
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
}

// Attention of 2 x 8 heads of 64. What stands before queries, keys and values, if `names` has it.
SegmentMaker Attention(int64_t length, const std::vector<std::string>& names,
                       DType type = DType::kF16) {
  SegmentMaker maker;
  std::vector<int> inputs;
  for (const std::string& name : names) {
    const int x = maker.Input({2, 8, length, 64}, type);
    inputs.push_back(name.empty() ? x : maker.Add(name, {x}));
  }
  maker.Output(maker.Add("Attention", inputs));
  return maker;
}

TEST(PlannerTest, AttentionTakesWhatIsBeforeIt) {
  const SegmentMaker maker = Attention(256, {"Neg", "Sigmoid", "Relu"});
  const Plan plan = PlanOf(maker.segment(), {});
  ASSERT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
  EXPECT_EQ(plan.sections[0].type, SectionType::kAttention);
  EXPECT_EQ(plan.sections[0].inputs.size(), 3u);
  ASSERT_EQ(plan.choices.size(), 3u);
  EXPECT_THAT(plan.choices[0].reason, HasSubstr("0.5 MB between them, read 1 times"));
  EXPECT_THAT(plan.choices[1].reason, HasSubstr("0.5 MB between them, read 4 times, work -"));
}

TEST(PlannerTest, KeysOfManyQueriesAreComputedOnce) {
  const SegmentMaker maker = Attention(16384, {"Neg", "Neg", ""});
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{1}, {0, 2}}));
  const std::string text = Explain(maker.segment(), plan);
  EXPECT_THAT(text, HasSubstr("fused: Neg (0) into Attention (2): score"));
  EXPECT_THAT(text, HasSubstr("apart: Neg (1) into Attention (2): score -"));
}

TEST(PlannerTest, WithoutTilesAttentionComputesElementsForEachScore) {
  const SegmentMaker maker = Attention(256, {"Neg", "Sigmoid", ""}, DType::kF32);
  PlanConfig config{.keeps_small_sections = true, .multiplies_tiles = false};
  const Plan plan = PlanOf(maker.segment(), config);
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0}, {1}, {2}}));
  const std::string text = Explain(maker.segment(), plan);
  EXPECT_THAT(text, HasSubstr("apart: Neg (0) into Attention (2): score -"));
  EXPECT_THAT(text, HasSubstr("Sigmoid (1) into Attention (2): would compute each element 16896"));
}

TEST(PlannerTest, AQueryAndKeyOfOneValueAreReadTogether) {
  SegmentMaker maker;
  const int x = maker.Add("Neg", {maker.Input({2, 8, 128, 64}, DType::kF16)});
  maker.Output(maker.Add("Attention", {x, x, x}));
  EXPECT_THAT(PlanOf(maker.segment()).choices[0].reason, HasSubstr("read 5 times"));
}

TEST(PlannerTest, AMaskOfAttentionIsComputedForItsKeys) {
  SegmentMaker maker;
  std::vector<int> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(maker.Input({2, 8, 128, 64}, DType::kF16));
  inputs.push_back(maker.Add("Log", {maker.Input({2, 1, 1, 128}, DType::kF16)}));
  maker.Output(maker.Add("Attention", inputs));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(plan.sections.size(), 1u);
  EXPECT_THAT(plan.choices[0].reason, HasSubstr("read 16 times"));  // 8 heads, 2 blocks of queries
}

TEST(PlannerTest, AttentionReadsGatheredKeysFromMemory) {
  SegmentMaker maker;
  const int q = maker.Input({2, 8, 64, 64}, DType::kF16);
  const int k = maker.Input({2, 8, 32, 64}, DType::kF16);
  const int joined = maker.Add("Concat", {k, maker.Add("Neg", {k})}, {{"axis", int64_t{2}}});
  maker.Output(maker.Add("Attention", {q, maker.Add("Abs", {joined}), q}));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1, 2}, {3}}));
  EXPECT_THAT(Explain(maker.segment(), plan),
              HasSubstr("apart: Abs (2) into Attention (3): before attention, elementwise "
                        "operations and views alone are fused"));
}

TEST(PlannerTest, AttentionThatGivesItsScoresReadsMemory) {
  SegmentMaker maker;
  const int x = maker.Input({2, 8, 64, 64}, DType::kF16);
  const int y = maker.Add("Attention", {maker.Add("Neg", {x}), x, x}, {}, 4);
  maker.Output(y);
  maker.Output(y + 3);
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(plan.sections.size(), 2u);
  EXPECT_EQ(plan.choices[0].reason, "attention reads such an input from memory alone");
}

TEST(PlannerTest, AKeyOfTwoTensorsNeedsSharedMemoryForBoth) {
  SegmentMaker maker;
  std::vector<int> all;
  for (int i = 0; i < 5; ++i) all.push_back(maker.Input({2, 8, 64, 64}, DType::kF16));
  const int k = maker.Add("Add", {all[1], all[2]});
  const int q = maker.Add("Sum", {all[0], all[1], all[2], all[3]});
  maker.Output(maker.Add("Attention", {q, k, all[4]}));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0}, {1, 2}}));
  EXPECT_THAT(Explain(maker.segment(), plan),
              HasSubstr("apart: Add (0) into Attention (2): shared memory: tiles would be 2.0 "
                        "times as large, 1 fit"));
}

TEST(PlannerTest, TenThousandOperationsArePlanned) {
  SegmentMaker maker;
  int x = maker.Input({1024, 1024});
  for (int i = 0; i < 10'000; ++i) x = maker.Add("Neg", {x});
  maker.Output(x);
  const Plan plan = PlanOf(maker.segment());
  size_t operations = 0;
  for (const Section& section : plan.sections) {
    EXPECT_LE(section.operations.size(), 64u);
    EXPECT_TRUE(LowerSection(maker.segment(), section).ok());
    operations += section.operations.size();
  }
  EXPECT_EQ(operations, 10'000u);
  EXPECT_LT(plan.sections.size(), 200u);
}

// --- Random graphs ---

class RandomGraphTest : public testing::TestWithParam<unsigned> {};

TestBuffer RandomBuffer(const Value& value, std::mt19937& random) {
  std::uniform_real_distribution<double> numbers(-2, 2);
  TestBuffer buffer(value.type, ElementsOf(value.shape).Constant().value());
  for (int64_t i = 0; i < buffer.size(); ++i) buffer.SetNumber(i, numbers(random));
  return buffer;
}

TEST_P(RandomGraphTest, FusedIsWhatItIsWithoutFusion) {
  std::mt19937 random(GetParam());
  const auto below = [&random](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  const std::vector<int64_t> extents = {1, 2, 3, 5, 8};
  SegmentMaker maker;
  const int64_t rows = extents[below(5)];
  const int64_t columns = extents[below(5)];
  // Values of every kind of section have the shape [rows, columns].
  std::vector<int> values = {maker.Input({rows, columns}), maker.Input({columns}),
                             maker.Input({rows, 1}),
                             maker.Input({rows, columns}, DType::kF32, {{1, rows}})};
  const int square = maker.Input({columns, columns});
  const int turned = maker.Integers({columns, rows});
  const std::vector<std::string> unary = {"Neg", "Relu", "Sigmoid", "Abs", "Tanh", "Softmax"};
  const std::vector<std::string> binary = {"Add", "Mul", "Sub", "Max"};
  for (int i = 0; i < 20; ++i) {
    const int x = values[below(values.size())];
    const int y = values[below(values.size())];
    const bool is_whole =
        maker.segment().values[static_cast<size_t>(x)].shape == std::vector<Size>{rows, columns};
    switch (is_whole ? below(7) : below(4)) {
      case 0:
      case 1:
        values.push_back(maker.Add(unary[below(unary.size())], {x}));
        break;
      case 2:
      case 3:
        values.push_back(maker.Add(binary[below(binary.size())], {x, y}));
        break;
      case 4:
        values.push_back(maker.Add("ReduceMax", {x, maker.Integers({1})}));
        break;
      case 5:
        values.push_back(maker.Add("MatMul", {x, square}));
        break;
      default:
        values.push_back(maker.Add("Transpose", {maker.Add("Reshape", {x, turned})},
                                   {{"perm", std::vector<int64_t>{1, 0}}}));
    }
    if (below(6) == 0) maker.Output(values.back());
  }
  maker.Output(values.back());
  std::map<int, TestBuffer> fused;
  for (size_t value = 0; value < maker.segment().values.size(); ++value) {
    if (maker.segment().values[value].is_input) {
      fused.emplace(static_cast<int>(value), RandomBuffer(maker.segment().values[value], random));
    }
  }
  std::map<int, TestBuffer> apart = fused;
  const Plan together = PlanOf(maker.segment());
  const Plan alone = PlanOf(maker.segment(), {.fuses = false, .keeps_small_sections = true});
  ASSERT_TRUE(RunPlan(maker.segment(), together, {}, fused).ok());
  ASSERT_TRUE(RunPlan(maker.segment(), alone, {}, apart).ok());
  EXPECT_LE(together.sections.size(), alone.sections.size());
  for (size_t value = 0; value < maker.segment().values.size(); ++value) {
    if (!maker.segment().values[value].is_output) continue;
    EXPECT_EQ(fused.at(static_cast<int>(value)).bytes(), apart.at(static_cast<int>(value)).bytes())
        << "value " << value << "\n"
        << Explain(maker.segment(), together);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphTest, testing::Range(0u, 50u));

// --- Views ---

// The opcodes of the only kernel of the only section.
std::vector<Opcode> OpcodesOf(const Segment& segment) {
  const Plan plan = PlanOf(segment);
  EXPECT_EQ(plan.sections.size(), 1u) << Explain(segment, plan);
  std::vector<Opcode> opcodes;
  const auto programs = LowerSection(segment, plan.sections[0]);
  for (const Instruction& instruction : programs->front().instructions) {
    opcodes.push_back(instruction.opcode);
  }
  return opcodes;
}

TEST(ViewTest, AChainOfViewsIsReadByStridesAlone) {
  SegmentMaker maker;
  const int x = maker.Input({6, 4});
  const int shape = maker.Integers({2, 3, 4});
  const int split = maker.Add("Reshape", {x, shape});
  const int turned = maker.Add("Transpose", {split}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  maker.Output(maker.Add("Neg", {turned}));
  EXPECT_THAT(OpcodesOf(maker.segment()),
              testing::Not(testing::AnyOf(testing::Contains(Opcode::kDivide),
                                          testing::Contains(Opcode::kFloorDivide),
                                          testing::Contains(Opcode::kRemainder))));
}

TEST(ViewTest, AReshapeThatNoStridesExpressIsComputed) {
  SegmentMaker maker;
  const int x = maker.Input({4, 6}, DType::kF32, {{1, 4}});
  maker.Output(maker.Add("Neg", {maker.Add("Reshape", {x, maker.Integers({24})})}));
  EXPECT_THAT(OpcodesOf(maker.segment()), testing::Contains(Opcode::kRemainder));
}

TEST(ViewTest, AProductReadsATransposedMatrixHoweverOften) {
  SegmentMaker maker;
  const int x = maker.Input({4096, 4096});
  const int w = maker.Add("Transpose", {maker.Input({4096, 4096})});
  maker.Output(maker.Add("MatMul", {x, w}));
  const Plan plan = PlanOf(maker.segment());
  EXPECT_EQ(SectionsOf(plan), (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(plan.choices[0].reason, "a view: strides alone");
}

TEST(ViewTest, ACopyIsExplained) {
  SegmentMaker maker;
  const int x = maker.Input({4, 6}, DType::kF32, {{1, 4}});
  maker.Output(maker.Add("Transpose", {x}));
  maker.Output(maker.Add("Reshape", {x, maker.Integers({24})}));
  const std::string text = Explain(maker.segment(), PlanOf(maker.segment()));
  EXPECT_THAT(text, HasSubstr("  Transpose (0)\n  a copy: the engine takes outputs in memory of "
                              "their own\n"));
  EXPECT_THAT(text, HasSubstr("  Reshape (1)\n  a copy: no strides express it\n"));
}

TEST(ViewTest, AttentionReadsItsHeadsInAProjectionOfAllThree) {
  SegmentMaker maker;
  const int all = maker.Input({2, 16, 3, 4, 8});  // batch, place, which of three, head, element
  const int three = maker.Add("Transpose", {all}, {{"perm", std::vector<int64_t>{2, 0, 3, 1, 4}}});
  const int split =
      maker.Add("Split", {three}, {{"axis", int64_t{0}}, {"num_outputs", int64_t{3}}}, 3);
  std::vector<int> inputs;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(maker.Add("Reshape", {split + i, maker.Integers({2, 4, 16, 8})}));
  }
  maker.Output(maker.Add("Attention", inputs));
  const Plan plan = PlanOf(maker.segment());
  ASSERT_EQ(plan.sections.size(), 1u) << Explain(maker.segment(), plan);
  EXPECT_EQ(plan.sections[0].type, SectionType::kAttention);
  EXPECT_EQ(plan.sections[0].operations.size(), 6u);
}

}  // namespace
}  // namespace kiln::graph
