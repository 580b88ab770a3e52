#include "storage/rocks/rocks_reclaimer.h"

#include <algorithm>

#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/rocks/rocks_options.h"

namespace kiln {

RocksReclaimer::RocksReclaimer(RocksDatabase& database, uint64_t expected_bytes)
    : database_(database),
      // Less than a few files cannot be told from what is not written out yet.
      garbage_bytes_max_(std::max(expected_bytes / 5, 4 * RocksBlobFileBytes(expected_bytes))),
      thread_([this] { Run(); }) {}

RocksReclaimer::~RocksReclaimer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

uint64_t RocksReclaimer::GarbageBytes() const {
  const uint64_t files = database_.BlobFileBytes();
  // What is live may not be written out yet, so this can come out low, never high.
  return files - std::min<uint64_t>(files, live_bytes_);
}

void RocksReclaimer::Consider(uint64_t live_bytes) {
  live_bytes_ = live_bytes;
  if (GarbageBytes() <= garbage_bytes_max_) return;
  {
    MutexLock lock(mutex_);
    is_due_ = true;
  }
  changed_.NotifyAll();
}

void RocksReclaimer::WaitForSpace() {
  const auto is_bearable = [this] { return GarbageBytes() <= garbage_bytes_max_ * 3 / 2; };
  if (is_bearable()) return;
  MutexLock lock(mutex_);
  while ((is_due_ || is_working_) && !is_bearable()) changed_.Wait(mutex_);
}

void RocksReclaimer::WaitUntilIdle() {
  MutexLock lock(mutex_);
  while (is_due_ || is_working_) changed_.Wait(mutex_);
}

void RocksReclaimer::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!is_due_ && !stopping_) changed_.Wait(mutex_);
    if (stopping_) return;
    is_due_ = false;
    is_working_ = true;
    lock.Unlock();
    // The oldest quarter first: it has most of the garbage, and its live blobs, which are on the
    // disk twice for a while, are the fewest. More where that was not enough.
    for (const double share : {0.25, 0.5, 1.0}) {
      if (stopping_ || GarbageBytes() <= garbage_bytes_max_) break;
      const absl::Status status = database_.CollectGarbage(share, stopping_);
      if (!status.ok() && !stopping_) {
        LogWarning("could not give back disk space", {{"error", Message(status)}});
        break;
      }
    }
    lock.Lock();
    is_working_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace kiln
