// Calls something now and then, while other work goes on.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "storage/base/mutex.h"

namespace kiln::cli {

// From construction on, calls `tick` once an interval, on a thread of its own. The destructor waits
// for the call under way. `tick` must not throw.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_over_ KILN_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace kiln::cli
