// A blob store and an index over its blobs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "storage/artifact_index.h"
#include "storage/blob_store.h"

namespace kiln {

// Gauges show the present, counters count since the store was opened.
struct StoreStats {
  uint64_t artifacts = 0;
  // The size of records and blobs after compression. Each blob counts once.
  uint64_t stored_bytes = 0;
  uint64_t stored_bytes_max = 0;  // 0: no limit
  // Bytes that may be put before the store evicts anything.
  uint64_t room_bytes = std::numeric_limits<uint64_t>::max();
  // The size of the store's files, with garbage and logs. 0: the store has no files.
  uint64_t disk_bytes = 0;
  uint64_t free_disk_bytes = 0;
  uint64_t evicted = 0;
  uint64_t quarantined = 0;
  // Why the store takes no artifacts at the moment, for people. Empty: it takes them.
  std::string degraded;
};

// Uses of an artifact that a faster tier answered.
struct UseCount {
  Digest key;
  uint64_t uses = 0;
  int64_t last_use_unix_ms = 0;
};

// Thread-safe.
class Store : public ArtifactIndex, public BlobStore {
 public:
  // This store, for callers that need one part of it.
  ArtifactIndex& index() { return *this; }
  BlobStore& blobs() { return *this; }

  virtual StoreStats Stats() const = 0;

  // Adds uses that did not reach this store's index. Ignores unknown keys. A failure loses counts
  // only.
  virtual void CountUses(std::span<const UseCount> uses) = 0;
  // Removes every blob that no record names, as damage to a record leaves them. Reads the whole
  // index where there may be any. Returns the number of removed blobs.
  virtual absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) = 0;
};

}  // namespace kiln
