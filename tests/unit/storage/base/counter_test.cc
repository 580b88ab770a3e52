#include "storage/base/counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace kiln {
namespace {

uint64_t ValueOf(const std::string& name) {
  const auto samples = ReadCounters();
  const auto found = std::find_if(samples.begin(), samples.end(),
                                  [&](const CounterSample& each) { return each.name == name; });
  return found == samples.end() ? 0 : found->value;
}

TEST(Counter, IsReadUnderItsName) {
  Counter counter("test_named", "Things.");
  EXPECT_EQ(counter.Add(), 1u);
  EXPECT_EQ(counter.Add(2), 3u);
  EXPECT_EQ(ValueOf("test_named"), 3u);
  const auto samples = ReadCounters();
  EXPECT_TRUE(std::any_of(samples.begin(), samples.end(),
                          [](const CounterSample& each) { return each.help == "Things."; }));
}

TEST(Counter, CountersOfOneNameAddUpAndStayCountedWhenDestroyed) {
  Counter lasting("test_summed", "");
  std::optional<Counter> passing(std::in_place, "test_summed", "");
  lasting.Add(1);
  passing->Add(10);
  EXPECT_EQ(ValueOf("test_summed"), 11u);
  passing.reset();
  EXPECT_EQ(ValueOf("test_summed"), 11u);
  EXPECT_EQ(lasting.value(), 1u);
}

TEST(Counter, CountsFromManyThreadsWhileItIsRead) {
  Counter counter("test_threads", "");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) counter.Add();
    });
  }
  EXPECT_LE(ValueOf("test_threads"), 4000u);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ValueOf("test_threads"), 4000u);
}

}  // namespace
}  // namespace kiln
