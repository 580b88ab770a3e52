// Artifacts by compile key.
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
#include "storage/base/limits.h"
#include "storage/base/made_once.h"
#include "storage/blob_store.h"

namespace kiln {

// The output of one stage of an artifact ("cubin", "ptx", …), named by its content.
struct StageReference {
  std::string stage;
  Digest digest;
  uint64_t size_bytes = 0;

  friend bool operator==(const StageReference&, const StageReference&) = default;
};

// The stage of a record that is the request that the artifact was compiled from, before those of
// the compiler. It has the source, so nobody who compiles is answered with it, and it is not
// published.
inline constexpr std::string_view kRequestStage = "request";

// What a reader made of a record (daemon/kernel/artifact_reader.h).
class RecordReading {
 public:
  virtual ~RecordReading() = default;
};

// An artifact without its bytes. The document (kernel metadata, timings and provenance as JSON) is
// opaque here: daemon/kernel writes and reads it.
struct ArtifactRecord {
  Digest key;
  std::string document;
  // The document as clients read it, so that a hit parses no JSON. Opaque here. Empty: the writer
  // did not encode it.
  std::string description = {};
  std::vector<StageReference> stages;  // in compile order; the last one is the final binary
  uint64_t compile_micros = 0;         // the cost of a miss; eviction weighs it
  int64_t created_unix_ms = 0;
  // For ArtifactUsage in a put of a new key; the index does not keep them with the record.
  std::string name = {};
  std::string options = {};
  // Lives as long as the record, so that a hit in memory decodes nothing.
  MadeOnce<RecordReading> reading = {};

  friend bool operator==(const ArtifactRecord&, const ArtifactRecord&) = default;
};

// A store may keep a copy of a final binary of at most this size with the record, so that a hit
// reads one row.
inline constexpr size_t kInlinedBinaryBytesMax = 8 * limits::kKiB;

// The blob of the record's last stage. Null where it is not among `blobs`.
inline const Blob* FindFinalBinary(const ArtifactRecord& record, std::span<const Blob> blobs) {
  for (const Blob& blob : blobs) {
    if (!record.stages.empty() && blob.digest() == record.stages.back().digest) return &blob;
  }
  return nullptr;
}

// Approximate: the last use may be a minute too old, and a crash loses uses.
struct ArtifactUsage {
  int64_t last_use_unix_ms = 0;
  uint64_t hits = 0;
  bool pinned = false;
  // For whom it was put first. None: nobody noted it.
  std::optional<uint32_t> uid = {};
  std::string job = {};
  std::string options = {};  // what lists show of the request
  std::string name = {};     // of the kernel
  int64_t created_unix_ms = 0;
  bool is_ahead = false;  // nobody waited for it: a warm, or an import
  // False: an earlier version of Kiln put it, so the record alone says name and time.
  bool HasName() const { return !name.empty() || created_unix_ms != 0; }

  friend bool operator==(const ArtifactUsage&, const ArtifactUsage&) = default;
};

// The usage of what is put under a new key.
inline ArtifactUsage FirstUsage(const CallContext& context, const ArtifactRecord& record) {
  return {.uid = context.principal.uid,
          .job = context.job.substr(0, limits::kActivityJobBytesMax),
          .options = record.options.substr(0, limits::kListedOptionsBytesMax),
          .name = record.name.substr(0, limits::kListedNameBytesMax),
          .created_unix_ms = record.created_unix_ms,
          .is_ahead = IsAhead(context.priority)};
}

struct FoundArtifact {
  std::shared_ptr<const ArtifactRecord> record;
  ArtifactUsage usage;  // from Scan alone, so that a hit does not read it
  Tier tier = Tier::kMemory;
  // The final binary, from Get alone, where it came with the record.
  std::optional<Blob> binary = {};
};

struct FoundUsage {
  Digest key;
  ArtifactUsage usage;
};

// Keys to records. Another thread may evict or quarantine a record's blobs at any time: a caller
// that misses one of them treats the whole artifact as a miss.
//
// Errors as in BlobStore. Put also says RESOURCE_EXHAUSTED: quota or disk is full, and the caller
// goes on without storing. Thread-safe. May block.
class ArtifactIndex {
 public:
  virtual ~ArtifactIndex() = default;

  // Counts as a use.
  virtual absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) = 0;
  // Stores record and blobs together or not at all. Both survive the death of the process once this
  // returns. Replaces an earlier record of the key and keeps its pin.
  // REQUIRES: `blobs` holds the content of every stage of `record`, in any order.
  virtual absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                           std::span<const Blob> blobs) = 0;
  // Also removes blobs that no other record names. NOT_FOUND where there is no such record.
  virtual absl::Status Remove(const CallContext& context, const Digest& key) = 0;
  // At most `limit` records with keys greater than `after` (none: from the first key), in the order
  // of keys. Not a use.
  virtual absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                          const std::optional<Digest>& after,
                                                          size_t limit) = 0;
  // As Scan, in a tenth of the time: without records.
  virtual absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                             const std::optional<Digest>& after,
                                                             size_t limit) = 0;
  // A pinned artifact is never evicted. NOT_FOUND where there is no such record.
  virtual absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) = 0;
  // The composition, outermost first: "tiered(memory, quota(rocks))".
  virtual std::string Describe() const = 0;
};

// Hears of every change once it is durable. Called on the thread that made the change, one call at
// a time per key. Must not call back into the index.
class ArtifactListener {
 public:
  virtual ~ArtifactListener() = default;
  virtual void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) = 0;
  virtual void OnRemove(const Digest& key) = 0;
};

}  // namespace kiln
