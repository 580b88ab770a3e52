#include "storage/use_counter.h"

#include <algorithm>

#include "storage/base/limits.h"

namespace kiln {

bool UseCounter::Add(const UseCount& use) {
  UseCount& pending = pending_[use.key];
  pending.key = use.key;
  pending.uses += use.uses;
  pending.last_use_unix_ms = std::max(pending.last_use_unix_ms, use.last_use_unix_ms);
  return pending_.size() >= limits::kPendingUsesMax ||
         clock_.Now() - last_drain_ >= limits::kPendingUsesAge;
}

std::vector<UseCount> UseCounter::Drain() {
  std::vector<UseCount> drained;
  drained.reserve(pending_.size());
  for (const auto& [key, use] : pending_) drained.push_back(use);
  pending_.clear();
  last_drain_ = clock_.Now();
  return drained;
}

UseCount UseCounter::Pending(const Digest& key) const {
  const auto it = pending_.find(key);
  return it == pending_.end() ? UseCount{key, 0, 0} : it->second;
}

}  // namespace kiln
