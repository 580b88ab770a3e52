// Who holds how much in the users' own namespaces, and what must go for more.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"

namespace kiln {

struct OwnLimits {
  size_t entries_per_user_max = limits::kOwnEntriesPerUserMax;
  size_t entries_max = limits::kOwnEntriesMax;
  uint64_t bytes_per_user_max = limits::kStoreBytesDefault / limits::kOwnBytesPerUserPart;
  uint64_t bytes_max = limits::kStoreBytesDefault / limits::kOwnBytesPart;

  // Of a store with that limit; 0: it has none.
  static OwnLimits Of(uint64_t store_bytes_max);
};

struct OwnStats {
  uint64_t users = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // before compression
};

// Hears, as a listener, of every entry that is put or removed, evictions included; what was there
// before it, it is told by TakeStock. Artifacts are none of its business. It only counts, before
// compression: whoever puts removes what MakeRoom names.
//
// A user who has too much loses what that user has not used for longest. Where all together have
// too much, whoever has most loses.
//
// Thread-safe; blocks on a short mutex.
class OwnLedger final : public ArtifactListener {
 public:
  // `clock` must outlive the ledger.
  OwnLedger(const OwnLimits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;

  // One that was stored before the ledger was there. What it knows already stays as it is.
  void TakeStock(const FoundArtifact& found);
  // It was used just now.
  void Touch(const Digest& key);
  // Entries that have to be removed before `uid` puts one of `bytes` under `key`, in place of what
  // has that key. They count as gone from now on. RESOURCE_EXHAUSTED where it never fits.
  absl::StatusOr<std::vector<Digest>> MakeRoom(uid_t uid, const Digest& key, uint64_t bytes);

  OwnStats Stats() const;

 private:
  struct Entry {
    uid_t uid = 0;
    uint64_t bytes = 0;
    int64_t last_use_unix_ms = 0;
  };
  // In the order in which they would go.
  using ByUse = std::set<std::pair<int64_t, Digest>>;
  struct User {
    ByUse entries;
    uint64_t bytes = 0;
  };

  // REQUIRES: mutex_ is held.
  void Add(const Digest& key, const Entry& entry);
  void Erase(const Digest& key);
  bool IsUserFull(uid_t uid, uint64_t more_bytes) const;
  bool IsFull(uint64_t more_bytes) const;
  uid_t WhoHasMost(uint64_t more_bytes) const;
  Digest TakeOldest(uid_t uid);

  const OwnLimits limits_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  std::unordered_map<Digest, Entry, DigestHash> entries_;
  std::map<uid_t, User> users_;
  uint64_t bytes_ = 0;
};

}  // namespace kiln
