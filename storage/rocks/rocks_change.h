// One atomic change of the store: keeps rows, reference counts and totals consistent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "storage/artifact_index.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_schema.h"

namespace kiln {

// Collects changes, then writes them as one batch. Not thread-safe.
// REQUIRES: the caller holds the writer's mutex from construction to Commit.
class RocksChange {
 public:
  // `database` must outlive the change. `totals` are the totals before the change.
  RocksChange(RocksDatabase& database, const TotalsRow& totals);

  // Writes the blob unless the store holds it. `stored` is the result of CompressValue.
  void Offer(const Digest& digest, std::string stored);
  bool IsHeld(const Digest& digest) { return Load(digest).row.stored_bytes > 0; }

  // `replaced_row_bytes`: the size of the key's earlier row; none: there is no earlier row.
  void PutRecord(const ArtifactRecord& record, std::string_view encoded,
                 std::optional<uint64_t> replaced_row_bytes);
  void RemoveRecord(const Digest& key, uint64_t row_bytes);
  void PutUsage(const Digest& key, const ArtifactUsage& usage);

  // Counts, or stops counting, the record's references to its blobs. Removes blobs without
  // references.
  void Claim(const ArtifactRecord& record);
  void Release(const ArtifactRecord& record);

  // Moves a damaged row to the quarantine, as far as it can be read.
  void QuarantineBlob(const Digest& digest, std::string_view reason, int64_t now_unix_ms);
  void QuarantineRecord(const Digest& key, std::string_view reason, int64_t now_unix_ms);

  // Replaces the count of the row. 0 removes the blob.
  void CorrectCount(const Digest& digest, uint32_t count) { Load(digest).correct_count = count; }

  // INVALID_ARGUMENT where a claimed blob is neither held nor offered. Other errors as
  // RocksDatabase::Write. An error changes nothing.
  absl::Status Commit();

  // After Commit: the new totals, and whether the change removed a blob.
  const TotalsRow& totals() const { return totals_; }
  bool HasFreedBlobs() const { return has_freed_blobs_; }

 private:
  struct BlobChange {
    ReferenceRow row;  // before
    int64_t claims = 0;
    std::optional<uint32_t> correct_count;
    std::optional<std::string> offered;
    bool is_damaged = false;

    // Whether the blob was only looked up.
    bool IsNone() const { return claims == 0 && !correct_count && !offered && !is_damaged; }
  };
  BlobChange& Load(const Digest& digest);
  absl::Status Apply(const Digest& digest, const BlobChange& change);
  std::string RowOf(RocksFamily family, const Digest& digest) const;
  void Quarantine(const Digest& digest, std::string_view kind, std::string_view reason,
                  std::string_view value, int64_t now_unix_ms);

  RocksDatabase& database_;
  RocksDatabase::Batch batch_;
  TotalsRow totals_;
  std::map<Digest, BlobChange> blobs_;
  bool has_freed_blobs_ = false;
};

// The size of a row in stored_bytes.
inline uint64_t RowBytes(std::string_view value) { return Digest::kSizeBytes + value.size(); }

}  // namespace kiln
