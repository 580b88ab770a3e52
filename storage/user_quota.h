// Who holds how much in the users' own namespaces, and what must go for more.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

struct UserQuotaLimits {
  size_t entries_per_user_max = limits::kUserCacheEntriesPerUserMax;
  size_t entries_max = limits::kUserCacheEntriesMax;
  uint64_t bytes_per_user_max = limits::kStoreBytesDefault / limits::kUserCacheBytesPerUserPart;
  uint64_t bytes_max = limits::kStoreBytesDefault / limits::kUserCacheBytesPart;

  // Of a store with that limit; 0: it has none.
  static UserQuotaLimits Of(uint64_t store_bytes_max);
};

// Rooms count as what they are for, and what is to leave for them does not.
struct UserCacheStats {
  uint64_t users = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // before compression
};

// Hears, as a listener, of every entry that is put or removed, evictions included; what was there
// before it, it is told by TakeStock. Artifacts are none of its business. It only counts, before
// compression: whoever puts removes what its room names.
//
// A user who has too much loses what that user has not used for longest. Where all together have
// too much, whoever has most loses.
//
// Thread-safe; blocks on a short mutex.
class UserQuota final : public ArtifactListener {
 public:
  class Room;

  // `clock` must outlive the ledger.
  UserQuota(const UserQuotaLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;

  // One that was stored before the ledger was there. What it knows already stays as it is.
  void TakeStock(const FoundArtifact& found);
  // It was used just now.
  void Touch(const Digest& key);
  // Room for an entry of `bytes` that `uid` is about to put under `key`, in place of what has that
  // key. RESOURCE_EXHAUSTED where it never fits, or where others' rooms leave none. REQUIRES: the
  // user has no other room; it goes before the ledger does.
  absl::StatusOr<std::unique_ptr<Room>> MakeRoom(uid_t uid, const Digest& key, uint64_t bytes);

  UserCacheStats Stats() const;

 private:
  struct Entry {
    uid_t uid = 0;
    uint64_t bytes = 0;
    int64_t last_use_unix_ms = 0;
    // Where it has one, it is stored and no longer counted.
    const Room* leaves_for = nullptr;
  };
  // In the order in which they would go.
  using ByUse = std::set<std::pair<int64_t, Digest>>;
  struct User {
    ByUse entries;       // those that may be asked to leave
    uint64_t count = 0;  // of them and of rooms
    uint64_t bytes = 0;
  };
  struct Share {
    uid_t uid = 0;
    uint64_t bytes = 0;
  };

  void Release(const Room& room);

  void Add(const Digest& key, const Entry& entry) KILN_REQUIRES(mutex_);
  void Erase(const Digest& key) KILN_REQUIRES(mutex_);
  void Hold(const Digest& key, const Entry& entry) KILN_REQUIRES(mutex_);
  void LetGo(const Digest& key, const Entry& entry) KILN_REQUIRES(mutex_);
  void Leave(const Digest& key, const Room& room) KILN_REQUIRES(mutex_);
  void Stay(const Digest& key, const Room& room) KILN_REQUIRES(mutex_);
  void Count(const Share& share) KILN_REQUIRES(mutex_);
  void Uncount(const Share& share) KILN_REQUIRES(mutex_);
  void EndReservation(const Digest& key) KILN_REQUIRES(mutex_);
  bool IsUserFull(uid_t uid, uint64_t more_bytes) const KILN_REQUIRES(mutex_);
  bool IsFull(uint64_t more_bytes) const KILN_REQUIRES(mutex_);
  // Among those who have something that could leave.
  std::optional<uid_t> WhoHasMost(uint64_t more_bytes) const KILN_REQUIRES(mutex_);
  // False where there is nothing.
  bool LeaveOldest(std::optional<uid_t> uid, Room& room) KILN_REQUIRES(mutex_);

  const UserQuotaLimits limits_;
  const Clock& clock_;

  mutable Mutex mutex_;
  std::unordered_map<Digest, Entry, DigestHash> entries_ KILN_GUARDED_BY(mutex_);
  std::map<uid_t, User> users_ KILN_GUARDED_BY(mutex_);
  // By the key that is about to be put.
  std::unordered_map<Digest, Share, DigestHash> reserved_ KILN_GUARDED_BY(mutex_);
  uint64_t count_ KILN_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ KILN_GUARDED_BY(mutex_) = 0;
};

// Room that a put has until it is over: nobody else gets it, nor is anything else of the user asked
// to leave twice. Once it goes, the ledger counts what it has heard of: what was put, and again all
// that was to leave and did not.
class UserQuota::Room {
 public:
  ~Room() { ledger_.Release(*this); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Entries that have to be removed before the put.
  const std::vector<Digest>& leaving() const { return leaving_; }
  // One of them is not stored at all.
  void Forget(const Digest& key);

 private:
  friend class UserQuota;
  Room(UserQuota& ledger, const Digest& key) : ledger_(ledger), key_(key) {}

  UserQuota& ledger_;
  const Digest key_;
  std::vector<Digest> leaving_;
};

}  // namespace kiln
