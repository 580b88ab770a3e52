// What an ArtifactRecord's document says, and its JSON. Storage keeps it without looking inside.
#pragma once

#include <string>
#include <string_view>

#include "daemon/kernel/kernel.h"
#include "storage/artifact_index.h"

namespace kiln {

// Never fails: text that is not UTF-8 is written with replacement characters.
std::string WriteDocument(const ArtifactDocument& document);

// Strict: every field there, of its type, and no other. DATA_LOSS where the text is not such a
// document, FAILED_PRECONDITION where a newer version wrote it. A reader treats both as a miss and
// compiles again.
absl::StatusOr<ArtifactDocument> ParseDocument(std::string_view text);
// Reads a document whose checksum was checked, in half the time of ParseDocument. Passes over
// fields that it does not know.
absl::StatusOr<ArtifactDocument> ReadDocument(std::string_view text);

// The encoding of Artifact::description. Raised with every field of the metadata, timings or
// provenance: an earlier description lacks the field.
inline constexpr char kDescriptionVersion = '1';

// What the index keeps of an artifact, next to the blobs of its stages.
ArtifactRecord MakeRecord(const Artifact& artifact);

}  // namespace kiln
