#include "storage/base/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

namespace kiln {
namespace {

TEST(Counter, IsReadUnderItsName) {
  Counter counter("test_named", "Things.");
  EXPECT_EQ(counter.Add(), 1u);
  EXPECT_EQ(counter.Add(2), 3u);
  EXPECT_EQ(ReadMetric("test_named"), 3);
  for (const MetricSample& sample : ReadMetrics()) {
    if (sample.name != "test_named") continue;
    EXPECT_EQ(sample.help, "Things.");
    EXPECT_TRUE(sample.is_counter);
  }
}

TEST(Counter, CountersOfOneNameAddUpAndStayCountedWhenDestroyed) {
  Counter lasting("test_summed", "");
  std::optional<Counter> passing(std::in_place, "test_summed", "");
  lasting.Add(1);
  passing->Add(10);
  EXPECT_EQ(ReadMetric("test_summed"), 11);
  passing.reset();
  EXPECT_EQ(ReadMetric("test_summed"), 11);
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
  EXPECT_LE(ReadMetric("test_threads"), 4000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadMetric("test_threads"), 4000);
}

TEST(Metrics, LabelsTellMetricsOfOneNameApart) {
  const Counter one("test_labels", "Things.", {{"toolchain", "one"}});
  Counter two("test_labels", "", {{"toolchain", "two"}});
  two.Add(2);
  std::map<std::string, double> values;
  for (const MetricSample& sample : ReadMetrics()) {
    if (sample.name == "test_labels") values[sample.labels.at(0).second] = sample.value;
  }
  EXPECT_EQ(values, (std::map<std::string, double>{{"one", 0}, {"two", 2}}));
  EXPECT_EQ(ReadMetric("test_labels"), 2);
}

TEST(Gauge, ShowsThePresentWhileItExistsAndIsKnown) {
  std::optional<double> value = 3;
  const auto count = [] {
    const auto samples = ReadMetrics();
    return std::count_if(samples.begin(), samples.end(),
                         [](const MetricSample& each) { return each.name == "test_gauge"; });
  };
  {
    const Gauge gauge("test_gauge", "Now.", [&] { return value; });
    EXPECT_EQ(ReadMetric("test_gauge"), 3);
    value = 1;
    EXPECT_EQ(ReadMetric("test_gauge"), 1);
    value.reset();
    EXPECT_EQ(count(), 0);
    value = 1;
    EXPECT_EQ(count(), 1);
  }
  EXPECT_EQ(count(), 0);
}

// A gauge may ask a file system that does not answer.
TEST(Gauge, WhileOneIsReadCountersComeAndGo) {
  const Gauge gauge("test_slow", "Slow.", [] {
    Counter counter("test_meanwhile", "Made meanwhile.");
    return counter.Add();
  });
  EXPECT_EQ(ReadMetric("test_slow"), 1);
  EXPECT_EQ(ReadMetric("test_meanwhile"), 1);
}

}  // namespace
}  // namespace kiln
