#include "daemon/compile/failure_cache.h"

#include "storage/base/limits.h"

namespace kiln {

FailureCache::FailureCache(const Clock& clock, std::chrono::nanoseconds time_to_live)
    : clock_(clock),
      time_to_live_(time_to_live),
      entries_(limits::kFailuresMax, limits::kFailureBytesMax) {}

std::shared_ptr<const CompileFailure> FailureCache::Find(const Digest& key) {
  std::lock_guard lock(mutex_);
  const Entry* entry = entries_.Find(key);
  if (entry == nullptr) return nullptr;
  if (clock_.Now() < entry->expires_at) return entry->failure;
  entries_.Erase(key);
  return nullptr;
}

void FailureCache::Remember(const Digest& key, std::shared_ptr<const CompileFailure> failure) {
  if (!failure->deterministic) return;
  const size_t bytes = failure->message.size() + failure->output.size() + failure->stage.size();
  std::lock_guard lock(mutex_);
  entries_.Insert(key, {std::move(failure), clock_.Now() + time_to_live_}, bytes);
}

void FailureCache::Forget(const Digest& key) {
  std::lock_guard lock(mutex_);
  entries_.Erase(key);
}

}  // namespace kiln
