// From what storage keeps to an artifact that can be answered with.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/kernel.h"
#include "storage/artifact_index.h"
#include "storage/blob_store.h"

namespace kiln {

struct ReadArtifact {
  std::shared_ptr<const Artifact> artifact;
  Tier tier = Tier::kMemory;  // the slowest that was asked
};

// Puts a record and its blobs together: the artifact with those of its stages that `wanted` names
// and always the final one, in the order of compilation. Parses the document only where the record
// has no description. Keeps what it made with the record, so that a hit in memory copies nothing.
//
// NOT_FOUND where a wanted stage is not in the record or its blob not in the store: then the
// artifact counts as not stored. Errors of ParseDocument and of the store otherwise. Thread-safe.
// May block as the store does.
absl::StatusOr<ReadArtifact> LoadArtifact(const CallContext& context, BlobStore& blobs,
                                          const FoundArtifact& found,
                                          std::span<const std::string> wanted);

}  // namespace kiln
