// Encodes an artifact's record (storage/format.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/artifact_index.h"
#include "storage/base/blob.h"

namespace kiln {

// `binary`: a copy of the content of the last stage, for a small one. Empty: none.
// INVALID_ARGUMENT where the record exceeds limits::kStagesMax or limits::kRecordBytesMax.
absl::StatusOr<std::string> EncodeRecord(const ArtifactRecord& record,
                                         std::string_view binary = {});

// `bytes` may be anything. DATA_LOSS where they are no record, do not match the checksum, or belong
// to another key; where `binary` is given, also where the binary does not match its digest.
// `binary` becomes that copy where the record has one.
absl::StatusOr<ArtifactRecord> DecodeRecord(std::string_view bytes, const Digest& expected_key,
                                            std::optional<Blob>* binary = nullptr);

}  // namespace kiln
