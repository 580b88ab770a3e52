// Numbers that `kiln stats` shows, each declared where it counts:
//
//   Counter put_failures_{"store_put_failures", "Compiled artifacts that the store did not take."};
//   Gauge files_{"hot_files", "Files in the hot directory.", [this] { return Stats().files; }};
//
// All metrics of the process are in one registry; nothing else has to be told of a new one. Metrics
// of the same name and labels are added up. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// What tells metrics of the same name apart: {{"priority", "warm"}}.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Grows from 0. What a counter has counted stays in the registry when the counter is destroyed. Add
// does not block.
class Counter {
 public:
  // `name` is that in `kiln stats --json`. `help` is a sentence for an operator, or "" where
  // another counter of the name has it.
  Counter(std::string name, std::string help, MetricLabels labels = {});
  ~Counter();
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  // Returns the new value of this counter alone.
  uint64_t Add(uint64_t count = 1) {
    return value_.fetch_add(count, std::memory_order_relaxed) + count;
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  const std::string name_;
  const MetricLabels labels_;
  std::atomic<uint64_t> value_ = 0;
};

// Shows the present, from its construction on: declare it after all that its function uses, which
// must not be made in the body of a constructor.
class Gauge {
 public:
  // Called on any thread. None: the value is not known, and not shown. May block, and take locks,
  // under which no gauge is destroyed then.
  using Read = std::function<std::optional<double>()>;

  // `name` and `help` as those of a counter.
  Gauge(std::string name, std::string help, Read read, MetricLabels labels = {});
  ~Gauge();
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

 private:
  const std::string name_;
  const MetricLabels labels_;
};

struct MetricSample {
  std::string name;
  MetricLabels labels;
  std::string help;
  bool is_counter = false;
  double value = 0;
};

// All metrics of this process, by name and labels. Blocks as the gauges do.
std::vector<MetricSample> ReadMetrics();
// The sum over all labels of one name; 0 where there is none.
double ReadMetric(std::string_view name);

}  // namespace kiln
