// Keeps what users warmed from eviction until their jobs have run.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"

namespace kiln {

struct WarmLeaseLimits {
  std::chrono::milliseconds time = limits::kLeaseTimeDefault;  // 0: nothing is leased
  uint64_t bytes_per_user_max = limits::kStoreBytesDefault / limits::kLeasedBytesPerUserPart;
  uint64_t bytes_max = limits::kStoreBytesDefault / limits::kLeasedBytesPart;
  size_t entries_per_user_max = limits::kLeasesMax / limits::kLeasedBytesPerUserPart;
  size_t entries_max = limits::kLeasesMax;

  // The limits for a store with that limit.
  static WarmLeaseLimits Of(std::chrono::milliseconds time, uint64_t store_bytes_max);
};

// A lease ends with its time, or with its artifact: an operator evicts leased ones, too. A job's
// hit does not end it, since every hit would take a lock. Sizes count before compression. Survives
// restarts; a crash loses what was leased since the last Save. Thread-safe; blocks on a short
// mutex, Save as a disk does.
class WarmLeases final : public ArtifactListener {
 public:
  // Reads the file, where there is one that is whole. The filesystem and the clock outlive this.
  WarmLeases(std::string path, const WarmLeaseLimits& limits, Filesystem& filesystem,
             const Clock& clock);

  // Leases an artifact from now on, again where it was leased before, by whomever. False: nothing
  // is leased, or the user, or all users together, would hold more than the limits say.
  bool Lease(uid_t uid, const Digest& key, uint64_t bytes);
  // Leases what is leased from now on. False: it is not.
  bool Renew(const Digest& key);
  bool Holds(const Digest& key) const;

  void OnPut(const ArtifactRecord&, std::span<const Blob>) override {}
  void OnRemove(const Digest& key) override;

  // Whether anything was leased since the last Save.
  bool HasChanged() const { return has_changed_; }
  // Forgets what has ended. Logs where it fails.
  void Save();

  bool IsOff() const { return limits_.time.count() == 0; }

 private:
  struct Entry {
    uid_t uid = 0;
    uint64_t bytes = 0;
    int64_t end_unix_ms = 0;
  };

  struct Share {
    uint64_t bytes = 0;
    size_t entries = 0;
  };

  int64_t NextEnd() const { return clock_.UnixMillis() + limits_.time.count(); }
  void Load(std::string_view text) KILN_REQUIRES(mutex_);
  bool HasRoom(uid_t uid, uint64_t bytes) const KILN_REQUIRES(mutex_);
  void Add(const Digest& key, const Entry& entry) KILN_REQUIRES(mutex_);
  using Entries = std::unordered_map<Digest, Entry, DigestHash>;
  Entries::iterator Erase(Entries::iterator entry) KILN_REQUIRES(mutex_);
  // Walks through all leases, but only where one of them may have ended.
  void EraseEnded() KILN_REQUIRES(mutex_);

  const std::string path_;
  const WarmLeaseLimits limits_;
  Filesystem& filesystem_;
  const Clock& clock_;
  std::atomic<bool> has_changed_ = false;

  mutable Mutex mutex_;
  Entries entries_ KILN_GUARDED_BY(mutex_);
  std::map<uid_t, Share> shares_ KILN_GUARDED_BY(mutex_);
  uint64_t bytes_ KILN_GUARDED_BY(mutex_) = 0;
  // No lease ends earlier.
  int64_t earliest_end_unix_ms_ KILN_GUARDED_BY(mutex_) = INT64_MAX;

  Counter refused_{"leases_refused",
                   "Artifacts that a warm or an import got and that were not leased, since the "
                   "leases of their user, or of all, have their share."};
  Gauge entries_gauge_{"leased", "Artifacts that a warm or an import has leased.", [this] {
                         const MutexLock lock(mutex_);
                         return entries_.size();
                       }};
  Gauge bytes_gauge_{"leased_bytes", "What leased artifacts hold, before compression.", [this] {
                       const MutexLock lock(mutex_);
                       return bytes_;
                     }};
};

}  // namespace kiln
