#include <gtest/gtest.h>

#include "client/graph/compile/planned_kernels.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

const CompileConfig kConfig{.target = "cuda:90"};

std::string KeyOf(const Segment& segment) { return PlanKey(segment, {}, kConfig); }

// A product with a constant matrix, then a slice whose bounds are constants.
Segment Example() {
  SegmentMaker maker("first");
  const Size rows = maker.Symbol("rows", 1, 128, 64);
  const int x = maker.Input({rows, 2});
  const int w = maker.Input({2, 2});
  maker.segment().values.back().is_constant = true;
  maker.segment().values.back().bytes = std::make_shared<const std::string>(16, '\0');
  const int starts = maker.Integers({0});
  const int ends = maker.Integers({1});
  const int axes = maker.Integers({1});
  const int product = maker.Add("MatMul", {x, w});
  maker.Output(maker.Add("Slice", {product, starts, ends, axes}));
  return maker.segment();
}

TEST(PlanKeyTest, NamesDoNotDecideTheKey) {
  const Segment one = Example();
  Segment other = one;
  other.name = "second";
  for (Value& value : other.values) value.name += "'";
  other.symbols[0].name = "batch";
  EXPECT_EQ(KeyOf(one).size(), 64u);
  EXPECT_EQ(KeyOf(one), KeyOf(other));
  other.operations[0].name = "matmul";  // an alias
  EXPECT_EQ(KeyOf(one), KeyOf(other));
}

TEST(PlanKeyTest, GridBarriersAndTheirScoreDecideTheKey) {
  PlanConfig other{.barriers = GridBarriers::kNever};
  EXPECT_NE(KeyOf(Example()), PlanKey(Example(), other, kConfig));
  other = {.model = {.barrier_bytes = 1}};
  EXPECT_NE(KeyOf(Example()), PlanKey(Example(), other, kConfig));
}

TEST(PlanKeyTest, ADefaultThatIsWrittenOutDoesNotDecideTheKey) {
  SegmentMaker one;
  one.Output(one.Add("LeakyRelu", {one.Input({64})}));
  SegmentMaker other;
  other.Output(other.Add("LeakyRelu", {other.Input({64})}, {{"alpha", 0.01}}));
  EXPECT_EQ(KeyOf(one.segment()), KeyOf(other.segment()));
  SegmentMaker third;
  third.Output(third.Add("LeakyRelu", {third.Input({64})}, {{"alpha", 0.02}}));
  EXPECT_NE(KeyOf(one.segment()), KeyOf(third.segment()));
}

TEST(PlanKeyTest, DataDecidesTheKeyOnlyWhereItIsComputedWith) {
  const Segment one = Example();
  Segment other = one;
  other.values[1].bytes = std::make_shared<const std::string>(16, '\1');  // the matrix
  EXPECT_EQ(KeyOf(one), KeyOf(other));
  other.values[1].bytes.reset();
  EXPECT_EQ(KeyOf(one), KeyOf(other));
  other.values[2].bytes =
      std::make_shared<const std::string>("\1\0\0\0\0\0\0\0", 8);  // the slice's start
  EXPECT_NE(KeyOf(one), KeyOf(other));
}

TEST(PlanKeyTest, TypesRangesLayoutAndRolesDecideTheKey) {
  const Segment one = Example();
  const std::vector<void (*)(Segment&)> changes = {
      [](Segment& segment) { segment.values[0].type = DType::kF16; },
      [](Segment& segment) {
        segment.values[0].strides = {{4, 1}};
      },
      [](Segment& segment) { segment.symbols[0].max = 256; },
      [](Segment& segment) { segment.symbols[0].typical = 32; },
      [](Segment& segment) { segment.symbols[0].multiple_of = 16; },
      [](Segment& segment) { segment.values[5].is_output = true; },
      [](Segment& segment) {
        segment.operations[0].inputs = {0, 0};
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Segment other = one;
    changes[i](other);
    EXPECT_NE(KeyOf(one), KeyOf(other)) << "change " << i;
  }
}

TEST(PlanKeyTest, AnOperationThatTheEngineKeepsIsInTheKey) {
  const Segment one = Example();
  Segment other = one;
  other.operations[1].name = "engine::Crop";
  other.operations[1].kept_because = "of another domain";
  const std::string key = KeyOf(other);
  EXPECT_NE(KeyOf(one), key);
  other.operations[1].kept_because = "for another reason";
  other.operations[1].attributes["size"] = int64_t{7};
  EXPECT_EQ(KeyOf(other), key);
  other.operations[1].name = "engine::Grow";
  EXPECT_NE(KeyOf(other), key);
}

TEST(PlanKeyTest, TheConfigurationDecidesTheKey) {
  const Segment segment = Example();
  const std::string key = KeyOf(segment);
  EXPECT_NE(key, PlanKey(segment, {.fuses = false}, kConfig));
  EXPECT_NE(key, PlanKey(segment, {.keeps_small_sections = true}, kConfig));
  EXPECT_NE(key, PlanKey(segment, {.off = {SectionType::kMatmul}}, kConfig));
  EXPECT_NE(key, PlanKey(segment, {.model = {.recompute_max = 2}}, kConfig));
  EXPECT_NE(key, PlanKey(segment, {}, {.target = "cuda:80"}));
  EXPECT_NE(key, PlanKey(segment, {}, {.target = "cuda:90", .fast_math = true}));
  EXPECT_NE(key, PlanKey(segment, {}, {.target = "cuda:90", .forced = Compiler::kTriton}));
  // All that there are, in another order.
  EXPECT_EQ(key, PlanKey(segment, {},
                         {.target = "cuda:90",
                          .available = {Compiler::kTriton, Compiler::kCuda, Compiler::kPtx}}));
}

}  // namespace
}  // namespace kiln::graph
