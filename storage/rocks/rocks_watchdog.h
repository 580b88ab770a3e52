// Ends a process that hangs in an open.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace kiln {

// Once it has lived for `time_max` it says so in the log and ends the process with status 1: an
// open that hangs cannot be called off, and a new process starts by probing the store. Starts a
// thread: create it only after the last fork.
class RocksOpenWatchdog {
 public:
  RocksOpenWatchdog(std::string path, std::chrono::milliseconds time_max);
  ~RocksOpenWatchdog();
  RocksOpenWatchdog(const RocksOpenWatchdog&) = delete;
  RocksOpenWatchdog& operator=(const RocksOpenWatchdog&) = delete;

 private:
  void Watch();

  const std::string path_;
  const std::chrono::milliseconds time_max_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  // Last: it uses the others.
  std::thread thread_;
};

}  // namespace kiln
