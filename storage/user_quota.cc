#include "storage/user_quota.h"

#include <algorithm>
#include <cassert>

#include "storage/artifact_value.h"
#include "storage/user_cache_record.h"

namespace kiln {

UserQuotaLimits UserQuotaLimits::Of(uint64_t store_bytes_max) {
  UserQuotaLimits limits;
  if (store_bytes_max == 0) return limits;
  limits.bytes_per_user_max = store_bytes_max / limits::kUserCacheBytesPerUserPart;
  limits.bytes_max = store_bytes_max / limits::kUserCacheBytesPart;
  return limits;
}

void UserQuota::OnPut(const ArtifactRecord& record, std::span<const Blob>) {
  if (!IsUserCacheKey(record.key)) return;
  const auto entry = DecodeUserCacheRecord(record.document);
  const MutexLock lock(mutex_);
  Erase(record.key);
  // An unreadable entry counts for nobody. The store evicts it in its time.
  if (!entry.ok()) return;
  Add(record.key, {entry->uid, ArtifactBytes(record), clock_.UnixMillis()});
}

void UserQuota::OnRemove(const Digest& key) {
  const MutexLock lock(mutex_);
  Erase(key);
}

void UserQuota::TakeStock(const FoundArtifact& found) {
  const ArtifactRecord& record = *found.record;
  if (!IsUserCacheKey(record.key)) return;
  const auto entry = DecodeUserCacheRecord(record.document);
  if (!entry.ok()) return;
  const MutexLock lock(mutex_);
  if (entries_.contains(record.key)) return;
  Add(record.key, {entry->uid, ArtifactBytes(record), found.usage.last_use_unix_ms});
}

void UserQuota::Touch(const Digest& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry entry = found->second;
  entry.last_use_unix_ms = clock_.UnixMillis();
  Erase(key);
  Add(key, entry);
}

absl::Status UserQuota::CheckFits(uint64_t bytes) const {
  const uint64_t bytes_max = std::min(limits_.bytes_per_user_max, limits_.bytes_max);
  if (bytes <= bytes_max) return absl::OkStatus();
  return ResourceExhausted("the entry has {} bytes, one user may have {} in all", bytes, bytes_max);
}

std::optional<Digest> UserQuota::NextToEvict(uid_t uid, const Digest& key, uint64_t bytes) const {
  assert(CheckFits(bytes).ok());
  const MutexLock lock(mutex_);
  const auto replaced = entries_.find(key);
  const size_t freed = replaced == entries_.end() ? 0 : 1;
  const uint64_t freed_bytes = replaced == entries_.end() ? 0 : replaced->second.bytes;

  const auto user = users_.find(uid);
  if (user != users_.end()) {
    const User& own = user->second;
    if (own.by_use.size() - freed >= limits_.entries_per_user_max ||
        own.bytes - freed_bytes + bytes > limits_.bytes_per_user_max) {
      return own.by_use.begin()->second;
    }
  }
  const bool has_too_many_bytes = bytes_ - freed_bytes + bytes > limits_.bytes_max;
  if (!has_too_many_bytes && entries_.size() - freed < limits_.entries_max) return std::nullopt;
  const auto share = [&](const User& one) {
    return has_too_many_bytes ? one.bytes : one.by_use.size();
  };
  const auto most = std::max_element(
      users_.begin(), users_.end(),
      [&](const auto& one, const auto& other) { return share(one.second) < share(other.second); });
  return most->second.by_use.begin()->second;
}

UserCacheStats UserQuota::Stats() const {
  const MutexLock lock(mutex_);
  return {users_.size(), entries_.size(), bytes_};
}

void UserQuota::Add(const Digest& key, const Entry& entry) {
  entries_.emplace(key, entry);
  User& user = users_[entry.uid];
  user.by_use.emplace(entry.last_use_unix_ms, key);
  user.bytes += entry.bytes;
  bytes_ += entry.bytes;
}

void UserQuota::Erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  const auto user = users_.find(entry.uid);
  user->second.by_use.erase({entry.last_use_unix_ms, key});
  user->second.bytes -= entry.bytes;
  bytes_ -= entry.bytes;
  if (user->second.by_use.empty()) users_.erase(user);
  entries_.erase(found);
}

}  // namespace kiln
