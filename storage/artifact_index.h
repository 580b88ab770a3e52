// What a key maps to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/base/blob.h"
#include "storage/base/call_context.h"
#include "storage/base/digest.h"
#include "storage/blob_store.h"

namespace kiln {

// One stage's output of an artifact ("cubin", "ptx", …), by content.
struct StageReference {
  std::string stage;
  Digest digest;
  uint64_t size_bytes = 0;

  friend bool operator==(const StageReference&, const StageReference&) = default;
};

// An artifact without its bytes. The document is opaque here: daemon/compile writes it (kernel
// metadata, timings, provenance as JSON) and reads it back.
struct ArtifactRecord {
  Digest key;
  std::string document;
  std::vector<StageReference>
      stages;                   // in the order of compilation; the last one is the final binary
  uint64_t compile_micros = 0;  // what a miss costs; eviction weighs it
  int64_t created_unix_ms = 0;

  friend bool operator==(const ArtifactRecord&, const ArtifactRecord&) = default;
};

// Coarse: a last use may be a minute old, and uses are lost with a crash.
struct ArtifactUsage {
  int64_t last_use_unix_ms = 0;
  uint64_t hits = 0;
  bool pinned = false;

  friend bool operator==(const ArtifactUsage&, const ArtifactUsage&) = default;
};

struct FoundArtifact {
  std::shared_ptr<const ArtifactRecord> record;
  ArtifactUsage usage;
  Tier tier = Tier::kMemory;
};

// Keys to records. A record that Get returns refers to blobs that were there when it was written; a
// caller that then misses a blob (evicted or put aside in between) treats the whole artifact as a
// miss.
//
// Errors as in BlobStore. Thread-safe. May block.
class ArtifactIndex {
 public:
  virtual ~ArtifactIndex() = default;

  // Counts as a use.
  virtual absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) = 0;
  // Record and blobs become visible together or not at all, and survive the death of the process
  // from the moment this returns. Replaces an earlier record of the same key; keeps its pin.
  // REQUIRES: `blobs` holds the content of every stage of `record` (in any order).
  virtual absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                           std::span<const Blob> blobs) = 0;
  // Blobs that no other record refers to go with it. NOT_FOUND where there is none.
  virtual absl::Status Remove(const CallContext& context, const Digest& key) = 0;
  // Records with a key greater than `after` (all of them where absent), in the order of keys, at
  // most `limit`. Not a use.
  virtual absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                          const std::optional<Digest>& after,
                                                          size_t limit) = 0;
  // A pinned artifact is never evicted. NOT_FOUND where there is none.
  virtual absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) = 0;
  virtual std::string Describe() const = 0;
};

// Told of every change, after it is durable: the hot directory publishes what it hears. Called on
// the thread that made the change, one call at a time per key; must not call back into the index.
class ArtifactListener {
 public:
  virtual ~ArtifactListener() = default;
  virtual void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) = 0;
  virtual void OnRemove(const Digest& key) = 0;
};

}  // namespace kiln
