// Encodes an artifact's record (storage/format.md).
#pragma once

#include <string>
#include <string_view>

#include "storage/artifact_index.h"

namespace kiln {

// INVALID_ARGUMENT where the record exceeds limits::kStagesMax or limits::kRecordBytesMax.
absl::StatusOr<std::string> EncodeRecord(const ArtifactRecord& record);

// `bytes` may be anything. DATA_LOSS where they are no record, do not match the checksum, or belong
// to another key.
absl::StatusOr<ArtifactRecord> DecodeRecord(std::string_view bytes, const Digest& expected_key);

}  // namespace kiln
