#include <gmock/gmock.h>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

// Windows of two rows and columns, a column of padding on the left.
const Attributes kWindows = {
    {"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 1, 0, 0}}, {"strides", Ints{1, 2}}};

TEST(Im2ColTest, EachWindowIsAColumn) {
  const OperationTensor x = {{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}};
  SingleOperation columns("Im2Col", kWindows);
  columns.Input(x);
  EXPECT_EQ(columns.Shape(), "[1, 4, 2]");
  // Windows [0 1; 0 4] and [2 3; 5 6].
  EXPECT_THAT(columns.Elements(), ElementsAre(0, 2, 1, 3, 0, 5, 4, 6));
}

TEST(Im2ColTest, ChannelsStandBelowEachOtherAndDilationLeavesGaps) {
  SingleOperation columns("Im2Col", {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}});
  columns.Input({{1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_EQ(columns.Shape(), "[1, 4, 2]");
  EXPECT_THAT(columns.Elements(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Col2ImTest, WhatOverlapsIsAdded) {
  // Windows of two elements over three: [1 2] and [10 20].
  SingleOperation image("Col2Im");
  image.Input({{1, 2, 2}, {1, 10, 2, 20}}).Input(KnownInts({3})).Input(KnownInts({2}));
  EXPECT_EQ(image.Shape(), "[1, 1, 3]");
  EXPECT_THAT(image.Elements(), ElementsAre(1, 12, 20));
}

TEST(Col2ImTest, UndoesIm2ColWhereWindowsDoNotOverlap) {
  Attributes attributes = kWindows;
  attributes.erase("kernel_shape");
  SingleOperation image("Col2Im", attributes);
  image.Input({{1, 4, 2}, {9, 2, 1, 3, 9, 5, 4, 6}});
  image.Input(KnownInts({2, 3})).Input(KnownInts({2, 2}));
  EXPECT_THAT(image.Elements(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Col2ImTest, AnotherNumberOfWindowsIsAnError) {
  SingleOperation image("Col2Im");
  image.Input({{1, 2, 3}, {1, 2, 3, 4, 5, 6}}).Input(KnownInts({3})).Input(KnownInts({2}));
  EXPECT_THAT(image.Shape(), HasSubstr("[1, 2, 3] does not have [2] windows of [2]"));
}

const Attributes kHalves = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
const OperationTensor kPooled = {{1, 2, 1, 2}, {7, 8, 9, -1}};

TEST(MaxUnpoolTest, ElementsGoBackToTheirPlacesInEachChannel) {
  SingleOperation unpool("MaxUnpool", kHalves);
  // Places count on from one channel to the next.
  unpool.Input(kPooled).Input({{1, 2, 1, 2}, {4, 3, 9, 10}, DType::kI64});
  EXPECT_EQ(unpool.Shape(), "[1, 2, 2, 4]");
  EXPECT_THAT(unpool.Elements(), ElementsAre(0, 0, 0, 8, 7, 0, 0, 0, 0, 9, -1, 0, 0, 0, 0, 0));
}

TEST(MaxUnpoolTest, ALargerOutputHasZerosBehind) {
  SingleOperation unpool("MaxUnpool", {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  unpool.Input({{1, 1, 2}, {5, 6}}).Input({{1, 1, 2}, {1, 2}, DType::kI64});
  unpool.Input(KnownInts({1, 1, 5}));
  EXPECT_THAT(unpool.Elements(), ElementsAre(0, 5, 6, 0, 0));
}

TEST(MaxUnpoolTest, OverlappingWindowsThatFoundOneElementGiveItOnce) {
  SingleOperation unpool("MaxUnpool", {{"kernel_shape", Ints{2}}});
  unpool.Input({{1, 1, 2}, {4, 4}}).Input({{1, 1, 2}, {1, 1}, DType::kI64});
  EXPECT_THAT(unpool.Elements(), ElementsAre(0, 4, 0));
}

}  // namespace
}  // namespace kiln::graph
