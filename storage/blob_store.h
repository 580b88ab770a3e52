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

// Where an answer came from, fastest first. Shown to clients, so the order and names are part of
// the contract.
enum class Tier { kMemory, kDisk, kRemote };
std::string_view TierName(Tier tier);

struct FoundBlob {
  Blob blob;
  Tier tier = Tier::kMemory;
};

// Blobs by the SHA-256 of their content. What comes back always matches its digest, since Blob
// checks it.
//
// Errors: NOT_FOUND says that the blob is not there; DATA_LOSS that it was and is damaged, in which
// case the store has already put it aside and the next Get says NOT_FOUND. RESOURCE_EXHAUSTED from
// Put says that the store does not take it now (quota, disk full): the caller goes on without.
// Anything else: the store could not look.
//
// Thread-safe. May block on a disk or a network; honours the context's cancellation where it can.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual absl::StatusOr<FoundBlob> Get(const CallContext& context, const Digest& digest) = 0;
  // Idempotent: a blob that is there already is left alone.
  virtual absl::Status Put(const CallContext& context, const Blob& blob) = 0;
  // Those of `digests` that a Get would not find, in the same order.
  virtual absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                          std::span<const Digest> digests) = 0;
  // The composition, outermost first: "tiered(memory, rocks)".
  virtual std::string Describe() const = 0;
};

}  // namespace kiln
