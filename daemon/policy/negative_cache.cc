#include "daemon/policy/negative_cache.h"

#include <cassert>
#include <utility>

#include "daemon/kernel/request_shape.h"

namespace kiln {

void NegativeCache::RememberFailure(const CompileJobPtr& job, FailurePtr failure) {
  assert(failure->deterministic);
  const size_t bytes = failure->message.size() + failure->output.size() + failure->stage.size();
  Remember(job, {std::move(failure), "", clock_.Now() + failure_time_}, bytes);
}

void NegativeCache::RememberCrash(const CompileJobPtr& job, std::string_view why) {
  if (quarantine_time_.count() == 0) return;
  const std::string_view kept = why.substr(0, limits::kQuarantineReasonBytesMax);
  Remember(job, {nullptr, std::string(kept), clock_.Now() + quarantine_time_}, kept.size());
}

void NegativeCache::Remember(const CompileJobPtr& job, Entry entry, size_t bytes) {
  const SteadyTime now = clock_.Now();
  const MutexLock lock(mutex_);
  if (now >= sweep_at_) {
    requests_.EraseIf([now](const Request& request) { return request.until <= now; });
    sweep_at_ = now + failure_time_;
  }
  requests_.Insert(job->key, {job, entry.until}, RequestBytes(job->request));
  entries_.Insert(job->key, std::move(entry), bytes);
}

void NegativeCache::Forget(const Digest& key) {
  const MutexLock lock(mutex_);
  entries_.Erase(key);
  requests_.Erase(key);
}

const NegativeCache::Entry* NegativeCache::FindStanding(const Digest& key) {
  const Entry* const entry = entries_.Find(key);
  return entry != nullptr && clock_.Now() < entry->until ? entry : nullptr;
}

FailurePtr NegativeCache::FindFailure(const Digest& key) {
  const MutexLock lock(mutex_);
  const Entry* const entry = FindStanding(key);
  return entry == nullptr ? nullptr : entry->failure;
}

FailurePtr NegativeCache::FindFailureOfAnyAge(const Digest& key) {
  const MutexLock lock(mutex_);
  const Entry* const entry = entries_.Find(key);
  return entry == nullptr ? nullptr : entry->failure;
}

std::optional<NegativeCache::Crash> NegativeCache::Refuse(const Digest& key) {
  const MutexLock lock(mutex_);
  const Entry* const entry = FindStanding(key);
  if (entry == nullptr || entry->failure != nullptr) return std::nullopt;
  refusals_.Add();
  return Crash{entry->crash,
               std::chrono::ceil<std::chrono::milliseconds>(entry->until - clock_.Now())};
}

std::optional<RememberedRequest> NegativeCache::FindRequest(const Digest& key) {
  const MutexLock lock(mutex_);
  const Entry* const entry = FindStanding(key);
  const Request* const request = requests_.Find(key);
  if (entry == nullptr || request == nullptr) return std::nullopt;
  return RememberedRequest{request->job, entry->failure, entry->crash};
}

bool NegativeCache::LiftCrash(const Digest& key) {
  const MutexLock lock(mutex_);
  const Entry* const entry = FindStanding(key);
  if (entry == nullptr || entry->failure != nullptr) return false;
  entries_.Erase(key);
  requests_.Erase(key);
  return true;
}

size_t NegativeCache::LiftAllCrashes() {
  const size_t count = CrashCount();
  const MutexLock lock(mutex_);
  entries_.EraseIf([](const Entry& entry) { return entry.failure == nullptr; });
  return count;
}

size_t NegativeCache::CrashCount() {
  const SteadyTime now = clock_.Now();
  size_t count = 0;
  const MutexLock lock(mutex_);
  entries_.EraseIf([&](const Entry& entry) {
    if (entry.failure == nullptr && now < entry.until) ++count;
    return entry.failure == nullptr && now >= entry.until;
  });
  return count;
}

}  // namespace kiln
