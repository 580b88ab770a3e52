#include "client/graph/plan/section_form.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

std::vector<SectionForm> FormsOf(const Segment& segment) {
  const Plan plan = MakePlan(segment, {.keeps_small_sections = true}).value();
  std::vector<SectionForm> forms;
  for (const Section& section : plan.sections) forms.push_back(FormOf(segment, section));
  return forms;
}

// The form of the only section of a segment that `make` writes.
std::string FormBy(const std::function<int(SegmentMaker&)>& make) {
  SegmentMaker maker;
  maker.Output(make(maker));
  return FormsOf(maker.segment()).at(0).text;
}

std::string FormOfReduction(std::vector<Size> shape, DType type, int64_t axis, bool keeps) {
  return FormBy([&](SegmentMaker& maker) {
    return maker.Add("ReduceSum", {maker.Input(shape, type)},
                     {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{keeps}}});
  });
}

TEST(SectionFormTest, LayersHaveOneFormAndTheirOwnValues) {
  SegmentMaker maker;
  int x = maker.Input({64, 16});
  for (int layer = 0; layer < 2; ++layer) {
    x = maker.Add("Softmax", {maker.Add("MatMul", {x, maker.Input({16, 16})})});
  }
  maker.Output(x);
  const std::vector<SectionForm> forms = FormsOf(maker.segment());
  ASSERT_EQ(forms.size(), 4u);
  EXPECT_EQ(forms[0].text, forms[2].text);
  EXPECT_EQ(forms[1].text, forms[3].text);
  EXPECT_NE(forms[0].text, forms[1].text);
  EXPECT_EQ(forms[0].values, (std::vector{0, 1, 2}));
  EXPECT_EQ(forms[2].values, (std::vector{3, 4, 5}));
}

TEST(SectionFormTest, WhatDecidesAProgramIsInTheForm) {
  const std::string form = FormOfReduction({4, 8}, DType::kF32, 1, true);
  EXPECT_EQ(form, FormOfReduction({4, 8}, DType::kF32, 1, true));
  EXPECT_NE(form, FormOfReduction({4, 9}, DType::kF32, 1, true));
  EXPECT_NE(form, FormOfReduction({4, 8}, DType::kF16, 1, true));
  EXPECT_NE(form, FormOfReduction({4, 8}, DType::kF32, 0, true));
  EXPECT_NE(form, FormOfReduction({4, 8}, DType::kF32, 1, false));
}

TEST(SectionFormTest, WhichValueIsReadWhereIsInTheForm) {
  // Inputs of an operation, of two values.
  const auto by = [](const char* op, std::vector<int> inputs) {
    return FormBy([&](SegmentMaker& maker) {
      maker.Input({4, 8});
      maker.Input({4, 8});
      return maker.Add(op, inputs);
    });
  };
  const std::string form = by("Sub", {0, 1});
  EXPECT_EQ(form, by("Sub", {0, 1}));
  EXPECT_NE(form, by("Sub", {1, 0}));
  EXPECT_NE(form, by("Sub", {0, 0}));
  EXPECT_NE(form, by("Add", {0, 1}));
}

TEST(SectionFormTest, StridesAreInTheForm) {
  const auto with = [](std::optional<std::vector<Size>> strides) {
    return FormBy([&](SegmentMaker& maker) {
      return maker.Add("Neg", {maker.Input({4, 8}, DType::kF32, strides)});
    });
  };
  EXPECT_NE(with(std::nullopt), with(std::vector<Size>{1, 4}));
  EXPECT_NE(with(std::vector<Size>{16, 1}), with(std::vector<Size>{1, 4}));
}

TEST(SectionFormTest, SymbolsAreInTheForm) {
  SegmentMaker maker;
  const Size rows = maker.Symbol("rows", 1, 64, 8);
  const Size columns = maker.Symbol("columns", 1, 64, 8);
  maker.Output(maker.Add("Neg", {maker.Input({rows})}));
  maker.Output(maker.Add("Neg", {maker.Input({columns})}));
  maker.Output(maker.Add("Neg", {maker.Input({rows * rows})}));
  const std::vector<SectionForm> forms = FormsOf(maker.segment());
  ASSERT_EQ(forms.size(), 3u);
  EXPECT_NE(forms[0].text, forms[1].text);
  EXPECT_NE(forms[0].text, forms[2].text);
}

}  // namespace
}  // namespace kiln::graph
