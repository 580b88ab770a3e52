#include "client/graph/run/observed_shapes.h"

#include <gtest/gtest.h>

#include <thread>

namespace kiln::graph {
namespace {

const Symbol kWhole = {"n", 1, 4096, 64, 1};

Symbol RangeOfSizes(const std::vector<int64_t>& sizes) {
  ObservedShapes shapes(1);
  for (const int64_t size : sizes) shapes.Add({&size, 1});
  return RangeOf(shapes.Get()[0], kWhole);
}

void ExpectRange(const Symbol& range, int64_t min, int64_t max, int64_t typical, int64_t multiple) {
  EXPECT_EQ(range.name, "n");
  EXPECT_EQ(range.min, min);
  EXPECT_EQ(range.max, max);
  EXPECT_EQ(range.typical, typical);
  EXPECT_EQ(range.multiple_of, multiple);
}

TEST(ObservedShapesTest, TheRangeHoldsWhatWasSeenAndTheMostFrequentIsTypical) {
  ExpectRange(RangeOfSizes({7, 512, 512, 30}), 7, 512, 512, 1);
}

TEST(ObservedShapesTest, OfMultiplesThePowersOfTwoAreTaken) {
  ExpectRange(RangeOfSizes({48, 96, 144}), 48, 144, 48, 16);
  ExpectRange(RangeOfSizes({1024}), 1024, 1024, 1024, 128);
}

TEST(ObservedShapesTest, WithoutExecutionsTheRangeStays) {
  ExpectRange(RangeOfSizes({}), 1, 4096, 64, 1);
}

TEST(ObservedShapesTest, AllZerosAreARangeThatAPlanTakes) {
  ExpectRange(RangeOfSizes({0, 0}), 0, 1, 0, 1);
}

TEST(ObservedShapesTest, NegativeSizesAreNone) { ExpectRange(RangeOfSizes({-5, 9}), 9, 9, 9, 1); }

TEST(ObservedShapesTest, ManySizesTakeNoMoreRoomAndTheFrequentOneIsFound) {
  ObservedShapes shapes(1);
  for (int64_t size = 1; size <= 1000; ++size) {
    shapes.Add(std::vector{size});
    shapes.Add(std::vector<int64_t>{77});
  }
  const ObservedSymbol observed = shapes.Get()[0];
  EXPECT_EQ(observed.size_count, kObservedSizesMax);
  EXPECT_EQ(observed.executions, 2000u);
  ExpectRange(RangeOf(observed, kWhole), 1, 1000, 77, 1);
}

TEST(ObservedShapesTest, ThreadsCountTogether) {
  ObservedShapes shapes(2);
  std::vector<std::thread> threads;
  for (int64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&shapes, i] {
      for (int round = 0; round < 100; ++round) shapes.Add(std::vector<int64_t>{i, 16 * i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shapes.Get()[0].executions, 400u);
  EXPECT_EQ(shapes.Get()[1].max, 64);
  EXPECT_EQ(shapes.Get()[1].divisor, 16);
}

}  // namespace
}  // namespace kiln::graph
