#include "storage/user_quota.h"

#include <algorithm>

#include "storage/artifact_value.h"
#include "storage/user_cache_record.h"

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
  EndReservation(record.key);
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
  Entry& entry = found->second;
  LetGo(key, entry);
  entry.last_use_unix_ms = clock_.UnixMillis();
  Hold(key, entry);
}

absl::StatusOr<std::unique_ptr<OwnLedger::Room>> OwnLedger::MakeRoom(uid_t uid, const Digest& key,
                                                                     uint64_t bytes) {
  const uint64_t most = std::min(limits_.bytes_per_user_max, limits_.bytes_max);
  if (bytes > most) {
    return ResourceExhausted("an entry of {} bytes, where one user may have {} in all", bytes,
                             most);
  }
  std::unique_ptr<Room> room(new Room(*this, key));  // goes after the lock
  const std::lock_guard lock(mutex_);
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

void OwnLedger::Room::Forget(const Digest& key) {
  const std::lock_guard lock(ledger_.mutex_);
  const auto found = ledger_.entries_.find(key);
  // Otherwise it has been put anew.
  if (found != ledger_.entries_.end() && found->second.leaves_for == this) {
    ledger_.entries_.erase(found);
  }
}

void OwnLedger::Release(const Room& room) {
  const std::lock_guard lock(mutex_);
  EndReservation(room.key_);
  Stay(room.key_, room);
  for (const Digest& each : room.leaving_) Stay(each, room);
}

OwnStats OwnLedger::Stats() const {
  const std::lock_guard lock(mutex_);
  return {users_.size(), count_, bytes_};
}

void OwnLedger::Add(const Digest& key, const Entry& entry) {
  entries_.emplace(key, entry);
  Hold(key, entry);
}

void OwnLedger::Erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  LetGo(key, found->second);
  entries_.erase(found);
}

void OwnLedger::Hold(const Digest& key, const Entry& entry) {
  if (entry.leaves_for != nullptr) return;
  users_[entry.uid].entries.emplace(entry.last_use_unix_ms, key);
  Count({entry.uid, entry.bytes});
}

void OwnLedger::LetGo(const Digest& key, const Entry& entry) {
  if (entry.leaves_for != nullptr) return;
  users_.at(entry.uid).entries.erase({entry.last_use_unix_ms, key});
  Uncount({entry.uid, entry.bytes});
}

void OwnLedger::Leave(const Digest& key, const Room& room) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.leaves_for != nullptr) return;
  LetGo(key, found->second);
  found->second.leaves_for = &room;
}

void OwnLedger::Stay(const Digest& key, const Room& room) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.leaves_for != &room) return;
  found->second.leaves_for = nullptr;
  Hold(key, found->second);
}

void OwnLedger::Count(const Share& share) {
  User& user = users_[share.uid];
  ++user.count;
  user.bytes += share.bytes;
  ++count_;
  bytes_ += share.bytes;
}

void OwnLedger::Uncount(const Share& share) {
  const auto user = users_.find(share.uid);
  --user->second.count;
  user->second.bytes -= share.bytes;
  --count_;
  bytes_ -= share.bytes;
  if (user->second.count == 0) users_.erase(user);
}

void OwnLedger::EndReservation(const Digest& key) {
  const auto found = reserved_.find(key);
  if (found == reserved_.end()) return;
  Uncount(found->second);
  reserved_.erase(found);
}

bool OwnLedger::IsUserFull(uid_t uid, uint64_t more_bytes) const {
  const auto user = users_.find(uid);
  return user != users_.end() && (user->second.count >= limits_.entries_per_user_max ||
                                  user->second.bytes + more_bytes > limits_.bytes_per_user_max);
}

bool OwnLedger::IsFull(uint64_t more_bytes) const {
  return count_ >= limits_.entries_max || bytes_ + more_bytes > limits_.bytes_max;
}

std::optional<uid_t> OwnLedger::WhoHasMost(uint64_t more_bytes) const {
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

bool OwnLedger::LeaveOldest(std::optional<uid_t> uid, Room& room) {
  const auto user = uid ? users_.find(*uid) : users_.end();
  if (user == users_.end() || user->second.entries.empty()) return false;
  const Digest key = user->second.entries.begin()->second;
  Leave(key, room);
  room.leaving_.push_back(key);
  return true;
}

}  // namespace kiln
