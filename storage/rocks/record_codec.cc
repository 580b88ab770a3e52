#include "storage/rocks/record_codec.h"

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// The layout of one record; the layout of the store as a whole has its own version. Version 1 had
// no description, version 2 no binary.
constexpr uint8_t kRecordVersion = 3;
constexpr size_t kChecksumBytes = sizeof(uint64_t);

absl::StatusOr<StageReference> DecodeStage(ByteReader& reader) {
  StageReference stage;
  stage.stage = std::string(reader.String());
  const auto digest = Digest::FromBytes(reader.Raw(Digest::kSizeBytes));
  stage.size_bytes = reader.Number<uint64_t>();
  if (!reader.ok()) return DataLoss("the record ends in the middle of a stage");
  stage.digest = *digest;
  return stage;
}

}  // namespace

absl::StatusOr<std::string> EncodeRecord(const ArtifactRecord& record, std::string_view binary) {
  if (record.stages.size() > limits::kStagesMax) {
    return InvalidArgument("the artifact has {} stages, the limit is {}", record.stages.size(),
                           limits::kStagesMax);
  }
  ByteWriter writer;
  writer.Number(kRecordVersion);
  writer.Raw(record.key.Bytes());
  writer.Number(record.compile_micros);
  writer.Number(record.created_unix_ms);
  writer.Number(static_cast<uint32_t>(record.stages.size()));
  for (const StageReference& stage : record.stages) {
    writer.String(stage.stage);
    writer.Raw(stage.digest.Bytes());
    writer.Number(stage.size_bytes);
  }
  writer.String(record.document);
  writer.String(record.description);
  writer.String(binary);
  writer.Number(Checksum64(writer.bytes()));
  if (writer.bytes().size() > limits::kRecordBytesMax) {
    return InvalidArgument("the artifact's record has {} bytes, the limit is {}",
                           writer.bytes().size(), limits::kRecordBytesMax);
  }
  return writer.Take();
}

absl::StatusOr<ArtifactRecord> DecodeRecord(std::string_view bytes, const Digest& expected_key,
                                            std::optional<Blob>* binary) {
  if (bytes.size() < kChecksumBytes) return DataLoss("the record has only {} bytes", bytes.size());
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  ByteReader checksum(bytes.substr(body.size()));
  if (checksum.Number<uint64_t>() != Checksum64(body)) {
    return DataLoss("the record does not match its checksum");
  }
  ByteReader reader(body);
  const auto version = reader.Number<uint8_t>();
  if (version == 0 || version > kRecordVersion) {
    return DataLoss("the record has the unknown version {}", version);
  }
  if (reader.Raw(Digest::kSizeBytes) != expected_key.Bytes()) {
    return DataLoss("the record belongs to another key");
  }
  ArtifactRecord record;
  record.key = expected_key;
  record.compile_micros = reader.Number<uint64_t>();
  record.created_unix_ms = reader.Number<int64_t>();
  const auto stages = reader.Number<uint32_t>();
  if (stages > limits::kStagesMax) return DataLoss("the record has {} stages", stages);
  for (uint32_t i = 0; i < stages; ++i) {
    KILN_ASSIGN_OR_RETURN(StageReference stage, DecodeStage(reader));
    record.stages.push_back(std::move(stage));
  }
  record.document = std::string(reader.String());
  if (version > 1) record.description = std::string(reader.String());
  const std::string_view inlined = version > 2 ? reader.String() : "";
  if (!reader.AtEnd()) return DataLoss("the record is longer or shorter than it says");
  if (binary != nullptr && !inlined.empty()) {
    if (record.stages.empty()) return DataLoss("the record has a binary and no stage");
    KILN_ASSIGN_OR_RETURN(*binary, Blob::Verify(std::string(inlined), record.stages.back().digest));
  }
  return record;
}

}  // namespace kiln
