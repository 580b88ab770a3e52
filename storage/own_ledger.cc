#include "storage/own_ledger.h"

#include <algorithm>

#include "storage/artifact_value.h"
#include "storage/own_record.h"

namespace kiln {

OwnLimits OwnLimits::Of(uint64_t store_bytes_max) {
  OwnLimits limits;
  if (store_bytes_max == 0) return limits;
  limits.bytes_per_user_max = store_bytes_max / limits::kOwnBytesPerUserPart;
  limits.bytes_max = store_bytes_max / limits::kOwnBytesPart;
  return limits;
}

void OwnLedger::OnPut(const ArtifactRecord& record, std::span<const Blob>) {
  if (!IsOwnKey(record.key)) return;
  const auto own = DecodeOwnRecord(record.document);
  const std::lock_guard lock(mutex_);
  Erase(record.key);
  // One that cannot be read is nobody's, and is evicted in its time.
  if (!own.ok()) return;
  Add(record.key, {own->uid, ArtifactBytes(record), clock_.UnixMillis()});
}

void OwnLedger::OnRemove(const Digest& key) {
  if (!IsOwnKey(key)) return;
  const std::lock_guard lock(mutex_);
  Erase(key);
}

void OwnLedger::TakeStock(const FoundArtifact& found) {
  const ArtifactRecord& record = *found.record;
  if (!IsOwnKey(record.key)) return;
  const auto own = DecodeOwnRecord(record.document);
  if (!own.ok()) return;
  const std::lock_guard lock(mutex_);
  if (entries_.contains(record.key)) return;
  Add(record.key, {own->uid, ArtifactBytes(record), found.usage.last_use_unix_ms});
}

void OwnLedger::Touch(const Digest& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry entry = found->second;
  Erase(key);
  entry.last_use_unix_ms = clock_.UnixMillis();
  Add(key, entry);
}

absl::StatusOr<std::vector<Digest>> OwnLedger::MakeRoom(uid_t uid, const Digest& key,
                                                        uint64_t bytes) {
  const uint64_t most = std::min(limits_.bytes_per_user_max, limits_.bytes_max);
  if (bytes > most) {
    return ResourceExhausted("an entry of {} bytes, where one user may have {} in all", bytes,
                             most);
  }
  const std::lock_guard lock(mutex_);
  Erase(key);
  std::vector<Digest> leaving;
  while (IsUserFull(uid, bytes)) leaving.push_back(TakeOldest(uid));
  while (IsFull(bytes)) leaving.push_back(TakeOldest(WhoHasMost(bytes)));
  return leaving;
}

OwnStats OwnLedger::Stats() const {
  const std::lock_guard lock(mutex_);
  return {users_.size(), entries_.size(), bytes_};
}

void OwnLedger::Add(const Digest& key, const Entry& entry) {
  entries_.emplace(key, entry);
  User& user = users_[entry.uid];
  user.entries.emplace(entry.last_use_unix_ms, key);
  user.bytes += entry.bytes;
  bytes_ += entry.bytes;
}

void OwnLedger::Erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  const auto user = users_.find(entry.uid);
  user->second.entries.erase({entry.last_use_unix_ms, key});
  user->second.bytes -= entry.bytes;
  bytes_ -= entry.bytes;
  if (user->second.entries.empty()) users_.erase(user);
  entries_.erase(found);
}

bool OwnLedger::IsUserFull(uid_t uid, uint64_t more_bytes) const {
  const auto user = users_.find(uid);
  return user != users_.end() && (user->second.entries.size() >= limits_.entries_per_user_max ||
                                  user->second.bytes + more_bytes > limits_.bytes_per_user_max);
}

bool OwnLedger::IsFull(uint64_t more_bytes) const {
  return !entries_.empty() &&
         (entries_.size() >= limits_.entries_max || bytes_ + more_bytes > limits_.bytes_max);
}

// Of what there is too much.
uid_t OwnLedger::WhoHasMost(uint64_t more_bytes) const {
  const bool by_bytes = bytes_ + more_bytes > limits_.bytes_max;
  const auto share = [&](const User& user) {
    return by_bytes ? user.bytes : uint64_t{user.entries.size()};
  };
  return std::max_element(
             users_.begin(), users_.end(),
             [&](const auto& a, const auto& b) { return share(a.second) < share(b.second); })
      ->first;
}

Digest OwnLedger::TakeOldest(uid_t uid) {
  const Digest key = users_.at(uid).entries.begin()->second;
  Erase(key);
  return key;
}

}  // namespace kiln
