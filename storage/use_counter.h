// Collects uses in memory, so that hits cost no writes.
#pragma once

#include <unordered_map>
#include <vector>

#include "storage/base/clock.h"
#include "storage/store.h"

namespace kiln {

// Not thread-safe.
class UseCounter {
 public:
  // `clock` must outlive the counter.
  explicit UseCounter(const Clock& clock) : clock_(clock), last_drain_(clock.Now()) {}

  // True where the caller should Drain(): there are many uses, or the last drain was long ago.
  [[nodiscard]] bool Add(const UseCount& use);

  // Returns and forgets all counted uses.
  std::vector<UseCount> Drain();
  // The uses of `key` since the last drain.
  UseCount Pending(const Digest& key) const;
  void Forget(const Digest& key) { pending_.erase(key); }

 private:
  const Clock& clock_;
  std::unordered_map<Digest, UseCount, DigestHash> pending_;
  SteadyTime last_drain_;
};

}  // namespace kiln
