#include "daemon/policy/quarantine.h"

#include <algorithm>

#include "daemon/kernel/request_shape.h"
#include "storage/base/limits.h"

namespace kiln {

Quarantine::Quarantine(std::chrono::milliseconds time, const Clock& clock)
    : time_(time),
      clock_(clock),
      jobs_(limits::kQuarantinedSourcesMax, limits::kQuarantinedSourceBytesMax) {}

std::optional<Quarantine::Entry> Quarantine::Refuse(const Digest& key) {
  std::optional<Entry> entry = Find(key);
  if (entry) ++refusals_;
  return entry;
}

std::optional<Quarantine::Entry> Quarantine::Find(const Digest& key) {
  const SteadyTime now = clock_.Now();
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end() || found->second.until <= now) return std::nullopt;
  const CompileJobPtr* job = jobs_.Find(key);
  return Entry{found->second.why,
               std::chrono::ceil<std::chrono::milliseconds>(found->second.until - now),
               job == nullptr ? nullptr : *job};
}

void Quarantine::Add(const CompileJobPtr& job, std::string_view why) {
  if (time_.count() == 0) return;
  const Digest& key = job->key;
  std::lock_guard lock(mutex_);
  ForgetThoseThatAreOver();
  if (kept_.size() >= limits::kQuarantinedSourcesMax && !kept_.contains(key)) {
    const auto first = std::min_element(
        kept_.begin(), kept_.end(),
        [](const auto& a, const auto& b) { return a.second.until < b.second.until; });
    jobs_.Erase(first->first);
    kept_.erase(first);
  }
  kept_[key] = {std::string(why.substr(0, limits::kQuarantineReasonBytesMax)),
                clock_.Now() + time_};
  jobs_.Insert(key, job, RequestBytes(job->request));
}

bool Quarantine::Lift(const Digest& key) {
  std::lock_guard lock(mutex_);
  ForgetThoseThatAreOver();
  jobs_.Erase(key);
  return kept_.erase(key) > 0;
}

size_t Quarantine::LiftAll() {
  std::lock_guard lock(mutex_);
  ForgetThoseThatAreOver();
  const size_t count = kept_.size();
  kept_.clear();
  jobs_.Clear();
  return count;
}

size_t Quarantine::size() const {
  std::lock_guard lock(mutex_);
  ForgetThoseThatAreOver();
  return kept_.size();
}

void Quarantine::ForgetThoseThatAreOver() const {
  const SteadyTime now = clock_.Now();
  std::erase_if(kept_, [&](const auto& entry) {
    const bool is_over = entry.second.until <= now;
    if (is_over) jobs_.Erase(entry.first);
    return is_over;
  });
}

}  // namespace kiln
