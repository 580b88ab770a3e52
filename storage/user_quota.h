// How much each user holds in the user cache, and which entry goes next when that is too much.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"

namespace kiln {

struct UserQuotaLimits {
  size_t entries_per_user_max = limits::kUserCacheEntriesPerUserMax;
  size_t entries_max = limits::kUserCacheEntriesMax;
  uint64_t bytes_per_user_max = limits::kStoreBytesDefault / limits::kUserCacheBytesPerUserPart;
  uint64_t bytes_max = limits::kStoreBytesDefault / limits::kUserCacheBytesPart;

  // The limits for a store with that limit. 0: the store has no limit.
  static UserQuotaLimits Of(uint64_t store_bytes_max);
};

struct UserCacheStats {
  uint64_t users = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // before compression
};

// Counts the entries of the user cache and ignores artifacts. As a listener it hears of every entry
// that is put, removed or evicted; TakeStock reports the entries that were stored before. Sizes
// count before compression.
//
// A user over the limit loses the entry that this user has not used for longest. Where all users
// together are over the limit, the user who holds most loses one.
//
// Thread-safe; blocks on a short mutex.
class UserQuota final : public ArtifactListener {
 public:
  // `clock` must outlive the quota.
  UserQuota(const UserQuotaLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;
  // An entry that was stored before the quota listened. A known entry stays as it is.
  void TakeStock(const FoundArtifact& found);
  // The entry was used just now.
  void Touch(const Digest& key);

  // RESOURCE_EXHAUSTED where an entry of `bytes` exceeds a limit by itself.
  absl::Status CheckFits(uint64_t bytes) const;
  // The entry to remove before `uid` puts `bytes` under `key`, in place of what has that key. None:
  // the put fits. Puts at the same time may exceed the limits by what they put; the next put makes
  // up for that. REQUIRES: CheckFits(bytes).
  std::optional<Digest> NextToEvict(uid_t uid, const Digest& key, uint64_t bytes) const;

  UserCacheStats Stats() const;

 private:
  struct Entry {
    uid_t uid = 0;
    uint64_t bytes = 0;
    int64_t last_use_unix_ms = 0;
  };
  struct User {
    std::set<std::pair<int64_t, Digest>> by_use;  // least recently used first; never empty
    uint64_t bytes = 0;
  };

  void Add(const Digest& key, const Entry& entry) KILN_REQUIRES(mutex_);
  void Erase(const Digest& key) KILN_REQUIRES(mutex_);

  const UserQuotaLimits limits_;
  const Clock& clock_;

  mutable Mutex mutex_;
  std::unordered_map<Digest, Entry, DigestHash> entries_ KILN_GUARDED_BY(mutex_);
  std::map<uid_t, User> users_ KILN_GUARDED_BY(mutex_);
  uint64_t bytes_ KILN_GUARDED_BY(mutex_) = 0;

  Gauge users_gauge_{"own_users", "Users that have entries of their own.",
                     [this] { return Stats().users; }};
  Gauge entries_gauge_{"own_entries", "Entries in users' own namespaces.",
                       [this] { return Stats().entries; }};
  Gauge bytes_gauge_{"own_bytes", "What users' own entries hold, before compression.",
                     [this] { return Stats().bytes; }};
};

}  // namespace kiln
