#include "storage/user_quota.h"

#include <algorithm>

#include "storage/artifact_value.h"
#include "storage/base/mutex.h"
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
  const auto own = DecodeUserCacheRecord(record.document);
  const MutexLock lock(mutex_);
  Erase(record.key);
  EndReservation(record.key);
  // One that cannot be read is nobody's, and is evicted in its time.
  if (!own.ok()) return;
  Add(record.key, {own->uid, ArtifactBytes(record), clock_.UnixMillis()});
}

void UserQuota::OnRemove(const Digest& key) {
  if (!IsUserCacheKey(key)) return;
  const MutexLock lock(mutex_);
  Erase(key);
}

void UserQuota::TakeStock(const FoundArtifact& found) {
  const ArtifactRecord& record = *found.record;
  if (!IsUserCacheKey(record.key)) return;
  const auto own = DecodeUserCacheRecord(record.document);
  if (!own.ok()) return;
  const MutexLock lock(mutex_);
  if (entries_.contains(record.key)) return;
  Add(record.key, {own->uid, ArtifactBytes(record), found.usage.last_use_unix_ms});
}

void UserQuota::Touch(const Digest& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  LetGo(key, entry);
  entry.last_use_unix_ms = clock_.UnixMillis();
  Hold(key, entry);
}

absl::StatusOr<std::unique_ptr<UserQuota::Room>> UserQuota::MakeRoom(uid_t uid, const Digest& key,
                                                                     uint64_t bytes) {
  const uint64_t most = std::min(limits_.bytes_per_user_max, limits_.bytes_max);
  if (bytes > most) {
    return ResourceExhausted("an entry of {} bytes, where one user may have {} in all", bytes,
                             most);
  }
  std::unique_ptr<Room> room(new Room(*this, key));  // goes after the lock
  const MutexLock lock(mutex_);
  Leave(key, *room);
  const auto taken = [&] {
    return ResourceExhausted("no room for {} bytes: other entries are just being put", bytes);
  };
  while (IsUserFull(uid, bytes)) {
    if (!LeaveOldest(uid, *room)) return taken();
  }
  while (IsFull(bytes)) {
    if (!LeaveOldest(WhoHasMost(bytes), *room)) return taken();
  }
  Count({uid, bytes});
  reserved_[key] = {uid, bytes};
  return room;
}

void UserQuota::Room::Forget(const Digest& key) {
  const MutexLock lock(ledger_.mutex_);
  const auto found = ledger_.entries_.find(key);
  // Otherwise it has been put anew.
  if (found != ledger_.entries_.end() && found->second.leaves_for == this) {
    ledger_.entries_.erase(found);
  }
}

void UserQuota::Release(const Room& room) {
  const MutexLock lock(mutex_);
  EndReservation(room.key_);
  Stay(room.key_, room);
  for (const Digest& each : room.leaving_) Stay(each, room);
}

UserCacheStats UserQuota::Stats() const {
  const MutexLock lock(mutex_);
  return {users_.size(), count_, bytes_};
}

void UserQuota::Add(const Digest& key, const Entry& entry) {
  entries_.emplace(key, entry);
  Hold(key, entry);
}

void UserQuota::Erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  LetGo(key, found->second);
  entries_.erase(found);
}

void UserQuota::Hold(const Digest& key, const Entry& entry) {
  if (entry.leaves_for != nullptr) return;
  users_[entry.uid].entries.emplace(entry.last_use_unix_ms, key);
  Count({entry.uid, entry.bytes});
}

void UserQuota::LetGo(const Digest& key, const Entry& entry) {
  if (entry.leaves_for != nullptr) return;
  users_.at(entry.uid).entries.erase({entry.last_use_unix_ms, key});
  Uncount({entry.uid, entry.bytes});
}

void UserQuota::Leave(const Digest& key, const Room& room) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.leaves_for != nullptr) return;
  LetGo(key, found->second);
  found->second.leaves_for = &room;
}

void UserQuota::Stay(const Digest& key, const Room& room) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.leaves_for != &room) return;
  found->second.leaves_for = nullptr;
  Hold(key, found->second);
}

void UserQuota::Count(const Share& share) {
  User& user = users_[share.uid];
  ++user.count;
  user.bytes += share.bytes;
  ++count_;
  bytes_ += share.bytes;
}

void UserQuota::Uncount(const Share& share) {
  const auto user = users_.find(share.uid);
  --user->second.count;
  user->second.bytes -= share.bytes;
  --count_;
  bytes_ -= share.bytes;
  if (user->second.count == 0) users_.erase(user);
}

void UserQuota::EndReservation(const Digest& key) {
  const auto found = reserved_.find(key);
  if (found == reserved_.end()) return;
  Uncount(found->second);
  reserved_.erase(found);
}

bool UserQuota::IsUserFull(uid_t uid, uint64_t more_bytes) const {
  const auto user = users_.find(uid);
  return user != users_.end() && (user->second.count >= limits_.entries_per_user_max ||
                                  user->second.bytes + more_bytes > limits_.bytes_per_user_max);
}

bool UserQuota::IsFull(uint64_t more_bytes) const {
  return count_ >= limits_.entries_max || bytes_ + more_bytes > limits_.bytes_max;
}

std::optional<uid_t> UserQuota::WhoHasMost(uint64_t more_bytes) const {
  // Of what there is too much.
  const bool by_bytes = bytes_ + more_bytes > limits_.bytes_max;
  std::optional<uid_t> most;
  uint64_t largest = 0;
  for (const auto& [uid, user] : users_) {
    const uint64_t share = by_bytes ? user.bytes : user.count;
    if (user.entries.empty() || (most && share <= largest)) continue;
    most = uid;
    largest = share;
  }
  return most;
}

bool UserQuota::LeaveOldest(std::optional<uid_t> uid, Room& room) {
  const auto user = uid ? users_.find(*uid) : users_.end();
  if (user == users_.end() || user->second.entries.empty()) return false;
  const Digest key = user->second.entries.begin()->second;
  Leave(key, room);
  room.leaving_.push_back(key);
  return true;
}

}  // namespace kiln
