// From what storage keeps to an artifact that can be answered with.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/kernel.h"
#include "storage/artifact_index.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"
#include "storage/blob_store.h"

namespace kiln {

struct ReadArtifact {
  std::shared_ptr<const Artifact> artifact;
  Tier tier = Tier::kMemory;  // the slowest that was asked
};

// Puts records and blobs together. Keeps the decoded documents of recent records, so that a hit in
// memory parses no JSON.
//
// Thread-safe. May block as the store does. The store outlives it.
class ArtifactReader {
 public:
  explicit ArtifactReader(BlobStore& blobs);

  // The artifact with those of its stages that `wanted` names and always the final one, in the
  // order of compilation. NOT_FOUND where a wanted stage is not in the record or its blob not in
  // the store: then the artifact counts as not stored. Errors of ParseDocument and of the store
  // otherwise.
  absl::StatusOr<ReadArtifact> Read(const CallContext& context, const FoundArtifact& found,
                                    std::span<const std::string> wanted);

  // The record's document, decoded.
  absl::StatusOr<std::shared_ptr<const ArtifactDocument>> Document(
      const std::shared_ptr<const ArtifactRecord>& record);

 private:
  struct Decoded {
    std::shared_ptr<const ArtifactRecord> record;
    std::shared_ptr<const ArtifactDocument> document;
  };

  std::shared_ptr<const ArtifactDocument> Remembered(const ArtifactRecord& record);

  BlobStore& blobs_;
  Mutex mutex_;
  LruCache<Decoded> decoded_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
