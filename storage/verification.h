// Reads a whole store and removes damaged artifacts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/blob_store.h"

namespace kiln {

struct VerificationProgress {
  uint64_t checked = 0;         // artifacts
  uint64_t checked_bytes = 0;   // of their blobs, uncompressed; a shared blob counts each time
  std::vector<Digest> damaged;  // removed, since their blobs were damaged or missing
  bool done = false;            // everything was read

  friend bool operator==(const VerificationProgress&, const VerificationProgress&) = default;
};

// Called on the verifying thread after every artifact, and once more at the end.
using VerificationCallback = std::function<void(const VerificationProgress&)>;

// Reads every record of `index` and its blobs from `blobs`. Removes an artifact with a damaged or
// missing blob from `remove_from`, so that the next request compiles it again. Scan quarantines
// damaged records by itself.
//
// `index` and `blobs` belong to the durable store, since a copy in memory would hide the disk.
// `remove_from` is the outermost index, so that every tier and every listener hears of a removal.
//
// Counts no uses. Artifacts that are evicted or replaced meanwhile are not damaged.
//
// Returns the final progress. CANCELLED when the context is cancelled; other errors where the store
// cannot read or remove. Blocks until the whole store is read.
absl::StatusOr<VerificationProgress> VerifyArtifacts(const CallContext& context,
                                                     ArtifactIndex& index, BlobStore& blobs,
                                                     ArtifactIndex& remove_from,
                                                     const VerificationCallback& callback);

}  // namespace kiln
