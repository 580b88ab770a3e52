#include "storage/rocks/rocks_schema.h"

#include <utility>

#include "storage/base/byte_codec.h"
#include "storage/base/limits.h"
#include "storage/rocks/record_codec.h"
#include "storage/rocks/stored_value.h"

namespace kiln {
namespace {

template <typename Row>
std::optional<Row> IfWhole(const ByteReader& reader, Row row) {
  if (!reader.AtEnd()) return std::nullopt;
  return row;
}

}  // namespace

std::string EncodeReferences(const ReferenceRow& row) {
  ByteWriter writer;
  writer.Number(row.count);
  writer.Number(row.stored_bytes);
  return writer.Take();
}

std::optional<ReferenceRow> DecodeReferences(std::string_view bytes) {
  ByteReader reader(bytes);
  ReferenceRow row;
  row.count = reader.Number<uint32_t>();
  row.stored_bytes = reader.Number<uint64_t>();
  return IfWhole(reader, row);
}

std::string EncodeUsage(const ArtifactUsage& usage) {
  ByteWriter writer;
  writer.Number(usage.last_use_unix_ms);
  writer.Number(usage.hits);
  writer.Number(static_cast<uint8_t>(usage.pinned));
  if (usage.uid) {
    writer.Number(*usage.uid);
    writer.String(usage.job);
    writer.String(usage.options);
    writer.String(usage.name);
    writer.Number(usage.created_unix_ms);
    writer.Number(static_cast<uint8_t>(usage.is_ahead));
  }
  return writer.Take();
}

std::optional<ArtifactUsage> DecodeUsage(std::string_view bytes) {
  ByteReader reader(bytes);
  ArtifactUsage usage;
  usage.last_use_unix_ms = reader.Number<int64_t>();
  usage.hits = reader.Number<uint64_t>();
  usage.pinned = reader.Number<uint8_t>() != 0;
  if (reader.ok() && !reader.AtEnd()) {
    usage.uid = reader.Number<uint32_t>();
    usage.job = reader.String();
    usage.options = reader.String();
  }
  if (reader.ok() && !reader.AtEnd()) {
    usage.name = reader.String();
    usage.created_unix_ms = reader.Number<int64_t>();
  }
  if (reader.ok() && !reader.AtEnd()) usage.is_ahead = reader.Number<uint8_t>() != 0;
  return IfWhole(reader, std::move(usage));
}

std::string EncodeTotals(const TotalsRow& row) {
  ByteWriter writer;
  writer.Number(row.artifacts);
  writer.Number(row.stored_bytes);
  writer.Number(row.quarantined);
  writer.Number(static_cast<uint8_t>(row.references_are_high));
  return writer.Take();
}

std::optional<TotalsRow> DecodeTotals(std::string_view bytes) {
  ByteReader reader(bytes);
  TotalsRow row;
  row.artifacts = reader.Number<uint64_t>();
  row.stored_bytes = reader.Number<uint64_t>();
  row.quarantined = reader.Number<uint64_t>();
  row.references_are_high = reader.Number<uint8_t>() != 0;
  return IfWhole(reader, row);
}

absl::StatusOr<ArtifactRecord> DecodeRecordRow(std::string_view row, const Digest& key,
                                               std::optional<Blob>* binary) {
  KILN_ASSIGN_OR_RETURN(const std::string raw, DecompressValue(row, limits::kRecordBytesMax));
  return DecodeRecord(raw, key, binary);
}

}  // namespace kiln
