// The rows of the RocksDB store (storage/format.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/artifact_index.h"
#include "storage/base/status.h"

namespace kiln {

// Raised with every change that an older program would misread. Version 2 added user cache entries,
// which an older program would publish to everybody. Version 3 added descriptions to records, which
// an older program would take for damaged. Version 4 added user, job and options to usages, and
// version 5 name and time, which an older program would lose together with the pins. Version 6
// added binaries to records, and LZ4.
inline constexpr uint32_t kRocksSchemaVersion = 7;

// Column families. kDefault, which RocksDB requires, has the one row of RocksDatabase::Write.
enum class RocksFamily : size_t {
  kDefault,
  kMeta,
  kArtifacts,
  kBlobs,
  kReferences,
  kAccess,
  kQuarantine,
};
inline constexpr std::array<const char*, 7> kRocksFamilyNames = {
    "default", "meta", "artifacts", "blobs", "references", "access", "quarantine"};

inline constexpr std::string_view kSchemaRow = "schema";
inline constexpr std::string_view kTotalsRow = "totals";

// RocksDB met damage that it cannot repair: this file in the store's directory makes the next start
// set the store aside.
inline constexpr std::string_view kDamagedMarker = "KILN-DAMAGED";
// The number of the log that the last open began. This log, or a newer one, must be there: RocksDB
// does not miss the log that it wrote last.
inline constexpr std::string_view kLogMarker = "KILN-LOG";

// `references`: how many stages of records name a blob, and the blob's size on disk. 0 bytes: the
// store does not hold the blob.
struct ReferenceRow {
  uint32_t count = 0;
  uint64_t stored_bytes = 0;
};

// `meta`/"totals": written in the same batch as the counted rows, so that a start scans nothing.
struct TotalsRow {
  uint64_t artifacts = 0;
  uint64_t stored_bytes = 0;
  uint64_t quarantined = 0;
  // A record was lost to damage, so the reference counts of its blobs are too high.
  bool references_are_high = false;
};

std::string EncodeReferences(const ReferenceRow& row);
std::optional<ReferenceRow> DecodeReferences(std::string_view bytes);
std::string EncodeUsage(const ArtifactUsage& usage);
std::optional<ArtifactUsage> DecodeUsage(std::string_view bytes);
std::string EncodeTotals(const TotalsRow& row);
std::optional<TotalsRow> DecodeTotals(std::string_view bytes);
// The row of a record with that key, and as DecodeRecord its binary. DATA_LOSS where it is damaged.
absl::StatusOr<ArtifactRecord> DecodeRecordRow(std::string_view row, const Digest& key,
                                               std::optional<Blob>* binary = nullptr);

}  // namespace kiln
