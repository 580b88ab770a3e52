// One record of an index, looked at from outside.
#pragma once

#include <optional>

#include "storage/artifact_index.h"

namespace kiln {

// The record of `key`, or nothing where there is none. Unlike ArtifactIndex::Get this is not a use,
// so what the daemon does in the background does not make an artifact look wanted. Errors of Scan.
absl::StatusOr<std::optional<FoundArtifact>> Peek(const CallContext& context, ArtifactIndex& index,
                                                  const Digest& key);

}  // namespace kiln
