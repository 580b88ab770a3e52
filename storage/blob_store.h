// Content-addressed bytes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "storage/base/blob.h"
#include "storage/base/call_context.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// The tier that answered, fastest first. Clients see the order.
enum class Tier { kMemory, kDisk };

struct FoundBlob {
  Blob blob;
  Tier tier = Tier::kMemory;
};

// Blobs by the SHA-256 of their content. A blob always matches its digest: Blob checks that. Blobs
// come with the record that names them (ArtifactIndex::Put).
//
// Errors:
//   NOT_FOUND      there is no such blob
//   DATA_LOSS      the blob was damaged; it is quarantined, and the next GetBlob says NOT_FOUND
//   anything else  the store could not look
//
// Thread-safe. May block on a disk or a network. Honours the context's cancellation where it can.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) = 0;
  // The digests that GetBlob would not find, in the given order.
  virtual absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                          std::span<const Digest> digests) = 0;
};

}  // namespace kiln
