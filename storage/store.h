// Blobs and the index over them, as one thing that can be decorated, tiered and asked how it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "storage/artifact_index.h"
#include "storage/blob_store.h"

namespace kiln {

// Gauges are of now, counters since the store was opened.
struct StoreStats {
  uint64_t artifacts = 0;
  // What records and blobs occupy, after compression, each blob once.
  uint64_t stored_bytes = 0;
  uint64_t stored_bytes_max = 0;  // 0: no limit
  // What the store's files occupy, garbage and logs included; 0 where there are none.
  uint64_t disk_bytes = 0;
  uint64_t free_disk_bytes = 0;
  uint64_t evicted = 0;
  uint64_t quarantined = 0;
  // Why the store takes no artifacts at the moment, for a person; empty where it does.
  std::string degraded;
};

// Uses of an artifact that a tier above answered.
struct UseCount {
  Digest key;
  uint64_t uses = 0;
  int64_t last_use_unix_ms = 0;
};

// The two faces stay valid as long as the store. Thread-safe throughout.
class Store {
 public:
  virtual ~Store() = default;

  virtual BlobStore& blobs() = 0;
  virtual ArtifactIndex& index() = 0;
  virtual StoreStats Stats() const = 0;

  // Adds uses that never reached this store's index. Unknown keys are ignored; failures only lose
  // the counts.
  virtual void CountUses(std::span<const UseCount> uses) = 0;
  // Removes every blob that no record refers to: those that were put alone, and those whose record
  // was damaged. Reads the whole index. Returns how many.
  virtual absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) = 0;

  // The composition, outermost first: "tiered(memory, quota(rocks))".
  std::string Describe() { return index().Describe(); }
};

}  // namespace kiln
