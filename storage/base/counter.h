// Counters that `kiln stats` shows, each declared where it counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

// Grows from 0. A member of whatever counts:
//
//   Counter put_failures_{"store_put_failures", "Compiled artifacts that the store did not take."};
//
// Every counter of the process is in one registry; nothing else has to be told of a new one. The
// counters of one name are added up, and what a counter has counted stays when it is destroyed.
// Thread-safe; Add does not block.
class Counter {
 public:
  // `name` is that in `kiln stats --json`; `help` is a sentence for an operator.
  Counter(std::string name, std::string help);
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
  std::atomic<uint64_t> value_ = 0;
};

struct CounterSample {
  std::string name;
  std::string help;
  uint64_t value = 0;
};

// All counters of this process, by name. Thread-safe.
std::vector<CounterSample> ReadCounters();

}  // namespace kiln
