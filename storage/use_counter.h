// Collects uses in memory, so that a hit does not cost a write.
#pragma once

#include <unordered_map>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/store.h"

namespace kiln {

// Thread-safe; never blocks on anything but a short mutex.
class UseCounter {
 public:
  // `clock` must outlive the counter.
  explicit UseCounter(const Clock& clock);

  // One use, now. True where enough has come together, or enough time has passed, that the caller
  // should Drain().
  [[nodiscard]] bool Count(const Digest& key);
  [[nodiscard]] bool Add(const UseCount& use);

  // What was counted since the last time.
  std::vector<UseCount> Drain();
  // What is counted of one key and not drained yet.
  UseCount Pending(const Digest& key) const;
  void Forget(const Digest& key);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::unordered_map<Digest, UseCount, DigestHash> pending_ KILN_GUARDED_BY(mutex_);
  SteadyTime last_drain_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
