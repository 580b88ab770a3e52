// Hits in the hot directory that the daemon has not heard of.
#pragma once

#include <chrono>
#include <unordered_set>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

// Gathers keys, so that one call tells of many. Thread-safe; does not block.
class UnreportedUses {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Keys = std::unordered_set<Digest, DigestHash>;

  // The keys to tell of now, which it forgets: none until there are many, or the first has waited
  // for long.
  Keys Add(const Digest& key, Moment now) {
    const MutexLock lock(mutex_);
    if (keys_.empty()) first_ = now;
    keys_.insert(key);
    const bool is_due =
        keys_.size() >= limits::kUnreportedUsesMax || now - first_ >= limits::kUnreportedUsesTime;
    return is_due ? std::exchange(keys_, {}) : Keys();
  }

  Keys TakeAll() {
    const MutexLock lock(mutex_);
    return std::exchange(keys_, {});
  }

 private:
  Mutex mutex_;
  Keys keys_ KILN_GUARDED_BY(mutex_);
  Moment first_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
