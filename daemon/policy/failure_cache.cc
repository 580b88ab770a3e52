#include "daemon/policy/failure_cache.h"

#include "daemon/kernel/request_shape.h"
#include "storage/base/limits.h"

namespace kiln {

FailureCache::FailureCache(const Clock& clock, std::chrono::nanoseconds time_to_live)
    : clock_(clock),
      time_to_live_(time_to_live),
      entries_(limits::kFailuresMax, limits::kFailureBytesMax),
      known_(limits::kFailuresMax, limits::kKnownFailureBytesMax) {}

std::shared_ptr<const CompileFailure> FailureCache::Find(const Digest& key) {
  std::optional<Remembered> remembered = FindWithRequest(key);
  return remembered ? std::move(remembered->failure) : nullptr;
}

std::shared_ptr<const CompileFailure> FailureCache::FindOfAnyAge(const Digest& key) {
  std::lock_guard lock(mutex_);
  const auto* failure = known_.Find(key);
  return failure == nullptr ? nullptr : *failure;
}

std::optional<FailureCache::Remembered> FailureCache::FindWithRequest(const Digest& key) {
  std::lock_guard lock(mutex_);
  const Entry* entry = entries_.Find(key);
  if (entry == nullptr) return std::nullopt;
  if (clock_.Now() < entry->expires_at) return entry->remembered;
  entries_.Erase(key);
  return std::nullopt;
}

void FailureCache::Remember(const CompileJobPtr& job,
                            std::shared_ptr<const CompileFailure> failure) {
  if (!failure->deterministic) return;
  const size_t bytes = failure->message.size() + failure->output.size() + failure->stage.size();
  const SteadyTime now = clock_.Now();
  std::lock_guard lock(mutex_);
  if (now >= sweep_at_) {
    entries_.EraseIf([now](const Entry& entry) { return entry.expires_at <= now; });
    sweep_at_ = now + time_to_live_;
  }
  known_.Insert(job->key, failure, bytes);
  entries_.Insert(job->key, {{std::move(failure), job}, now + time_to_live_},
                  bytes + RequestBytes(job->request));
}

void FailureCache::Forget(const Digest& key) {
  std::lock_guard lock(mutex_);
  entries_.Erase(key);
  known_.Erase(key);
}

}  // namespace kiln
