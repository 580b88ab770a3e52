#include "storage/rocks_reclaimer.h"

#include <algorithm>

#include "storage/base/log.h"
#include "storage/rocks_options.h"

namespace kiln {

RocksReclaimer::RocksReclaimer(RocksDatabase& database, uint64_t expected_bytes)
    : database_(database),
      // Less than a few files cannot be told from what is not written out yet.
      garbage_bytes_max_(std::max(expected_bytes / 5, 4 * RocksBlobFileBytes(expected_bytes))),
      thread_([this] { Run(); }) {}

RocksReclaimer::~RocksReclaimer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool RocksReclaimer::IsWorthIt(uint64_t live_bytes) const {
  return database_.BlobFileBytes() > live_bytes + garbage_bytes_max_;
}

void RocksReclaimer::Consider(uint64_t live_bytes) {
  live_bytes_ = live_bytes;
  if (!IsWorthIt(live_bytes)) return;
  {
    std::lock_guard lock(mutex_);
    is_due_ = true;
  }
  changed_.notify_all();
}

void RocksReclaimer::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_due_ && !is_working_; });
}

void RocksReclaimer::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_due_ || stopping_; });
    if (stopping_) return;
    is_due_ = false;
    is_working_ = true;
    lock.unlock();
    // The older half first, since that is cheap and mostly enough; everything where it was not.
    for (const double share : {0.5, 1.0}) {
      if (stopping_ || !IsWorthIt(live_bytes_)) break;
      const absl::Status status = database_.CollectGarbage(share, stopping_);
      if (!status.ok() && !stopping_) {
        LogWarning("could not give back disk space", {{"error", Message(status)}});
        break;
      }
    }
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }
}

}  // namespace kiln
