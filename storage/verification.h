// Reads everything that a store holds and removes what is damaged.
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
  std::vector<Digest> damaged;  // keys whose blobs were damaged or missing; they are removed
  bool done = false;            // everything was read

  friend bool operator==(const VerificationProgress&, const VerificationProgress&) = default;
};

// Called after every artifact, and once more when it is done, on the thread that verifies.
using VerificationCallback = std::function<void(const VerificationProgress&)>;

// Reads every record of `index` and every blob that it names from `blobs`. Where one of these is
// damaged or missing, the artifact is removed from `remove_from`, so that the next request compiles
// it again. A damaged record never gets here: the index puts it aside in Scan.
//
// `index` and `blobs` are those of the durable store, since a copy in memory would hide what is on
// the disk. `remove_from` is the outermost index, so that every tier and every listener hears of a
// removal.
//
// An artifact that is evicted or replaced meanwhile is no damage. Not a use of anything. Goes on
// beside other work.
//
// Returns the final progress. Errors: CANCELLED when the context is cancelled; whatever keeps the
// store from reading or removing, in which case it makes no sense to go on. Blocks for as long as
// it takes to read the whole store.
absl::StatusOr<VerificationProgress> VerifyArtifacts(const CallContext& context,
                                                     ArtifactIndex& index, BlobStore& blobs,
                                                     ArtifactIndex& remove_from,
                                                     const VerificationCallback& callback);

}  // namespace kiln
