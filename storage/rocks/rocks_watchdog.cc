#include "storage/rocks/rocks_watchdog.h"

#include <unistd.h>

#include <utility>

#include "storage/base/log.h"

namespace kiln {

RocksOpenWatchdog::RocksOpenWatchdog(std::string path, std::chrono::milliseconds time_max)
    : path_(std::move(path)), time_max_(time_max), thread_([this] { Watch(); }) {}

RocksOpenWatchdog::~RocksOpenWatchdog() {
  {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void RocksOpenWatchdog::Watch() {
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, time_max_, [this] { return has_ended_; })) return;
  LogError("opening the store hangs; ending, so that the next start probes it",
           {{"path", path_}, {"limit_ms", time_max_.count()}});
  _exit(1);
}

}  // namespace kiln
