// Reads a record without counting a use.
#pragma once

#include <optional>

#include "storage/artifact_index.h"

namespace kiln {

// The key right before `key`. Nothing: it is the first of all.
std::optional<Digest> KeyBefore(const Digest& key);

// The record of `key`, or nothing where there is no such record. Unlike ArtifactIndex::Get this is
// not a use: background work must not make an artifact look wanted. Errors of Scan.
absl::StatusOr<std::optional<FoundArtifact>> Peek(const CallContext& context, ArtifactIndex& index,
                                                  const Digest& key);

}  // namespace kiln
