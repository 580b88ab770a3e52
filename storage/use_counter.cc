#include "storage/use_counter.h"

#include <algorithm>
#include <chrono>

#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

UseCounter::UseCounter(const Clock& clock) : clock_(clock), last_drain_(clock.Now()) {}

bool UseCounter::Add(const UseCount& use) {
  MutexLock lock(mutex_);
  UseCount& pending = pending_[use.key];
  pending.key = use.key;
  pending.uses += use.uses;
  pending.last_use_unix_ms = std::max(pending.last_use_unix_ms, use.last_use_unix_ms);
  return pending_.size() >= limits::kPendingUsesMax ||
         clock_.Now() - last_drain_ >= limits::kPendingUsesAge;
}

std::vector<UseCount> UseCounter::Drain() {
  MutexLock lock(mutex_);
  std::vector<UseCount> drained;
  drained.reserve(pending_.size());
  for (const auto& [key, use] : pending_) drained.push_back(use);
  pending_.clear();
  last_drain_ = clock_.Now();
  return drained;
}

UseCount UseCounter::Pending(const Digest& key) const {
  MutexLock lock(mutex_);
  const auto it = pending_.find(key);
  return it == pending_.end() ? UseCount{key, 0, 0} : it->second;
}

void UseCounter::Forget(const Digest& key) {
  MutexLock lock(mutex_);
  pending_.erase(key);
}

}  // namespace kiln
