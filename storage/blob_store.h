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

// The tier that answered, fastest first. Clients see order and names, so both are part of the
// contract.
enum class Tier { kMemory, kDisk, kRemote };
std::string_view TierName(Tier tier);

struct FoundBlob {
  Blob blob;
  Tier tier = Tier::kMemory;
};

// Blobs by the SHA-256 of their content. A blob always matches its digest: Blob checks that.
//
// Errors:
//   NOT_FOUND           there is no such blob
//   DATA_LOSS           the blob was damaged; it is quarantined, and the next Get says NOT_FOUND
//   RESOURCE_EXHAUSTED  from Put: quota or disk is full; the caller goes on without storing
//   anything else       the store could not look
//
// Thread-safe. May block on a disk or a network. Honours the context's cancellation where it can.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual absl::StatusOr<FoundBlob> Get(const CallContext& context, const Digest& digest) = 0;
  // Idempotent.
  virtual absl::Status Put(const CallContext& context, const Blob& blob) = 0;
  // The digests that Get would not find, in the given order.
  virtual absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                          std::span<const Digest> digests) = 0;
  // The composition, outermost first: "tiered(memory, rocks)".
  virtual std::string Describe() const = 0;
};

}  // namespace kiln
