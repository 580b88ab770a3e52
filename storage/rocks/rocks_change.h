// One atomic change of the store that keeps rows, reference counts and totals in step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "storage/artifact_index.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_schema.h"

namespace kiln {

// Collects what changes, then writes it as one batch. REQUIRES: the writer's mutex is held from
// construction to Commit. Not thread-safe.
class RocksChange {
 public:
  // `database` must outlive the change; `totals` are those before it.
  RocksChange(RocksDatabase& database, const TotalsRow& totals);

  // The content of a blob, to be written if the store does not hold it. `stored` is as
  // CompressValue made it.
  void Offer(const Digest& digest, std::string stored);
  bool IsReferenced(const Digest& digest) { return Load(digest).row.count > 0; }
  bool IsHeld(const Digest& digest) { return Load(digest).row.stored_bytes > 0; }

  // A record with `row_bytes` takes the place of one with `replaced_row_bytes` (none: there was
  // none).
  void PutRecord(const ArtifactRecord& record, std::string_view encoded,
                 std::optional<uint64_t> replaced_row_bytes);
  void RemoveRecord(const Digest& key, uint64_t row_bytes);
  void PutUsage(const Digest& key, const ArtifactUsage& usage);

  // A record's stages begin, or cease, to refer to their blobs. What nothing refers to any more
  // goes.
  void Claim(const ArtifactRecord& record);
  void Release(const ArtifactRecord& record);

  // A damaged value is out of the way, and kept for a look.
  void QuarantineBlob(const Digest& digest, std::string_view reason, std::string_view value,
                      int64_t now_unix_ms);
  void QuarantineRecord(const Digest& key, std::string_view reason, std::string_view value,
                        int64_t now_unix_ms);

  // A blob that nothing refers to goes.
  void DropUnreferenced(const Digest& digest) { Load(digest).is_unwanted = true; }
  // The count is that, whatever the row says.
  void CorrectCount(const Digest& digest, uint32_t count);

  // INVALID_ARGUMENT where a claimed blob is neither held nor offered; otherwise as
  // RocksDatabase::Write. Nothing has changed where it fails.
  absl::Status Commit();

  // After Commit: how things stand now, and whether anything was deleted.
  const TotalsRow& totals() const { return totals_; }
  bool HasFreedBlobs() const { return has_freed_blobs_; }

 private:
  struct BlobChange {
    ReferenceRow row;  // before
    int64_t claims = 0;
    std::optional<uint32_t> correct_count;
    std::optional<std::string> offered;
    bool is_damaged = false;
    bool is_unwanted = false;

    // It was only looked at.
    bool IsNone() const {
      return claims == 0 && !correct_count && !offered && !is_damaged && !is_unwanted;
    }
  };
  BlobChange& Load(const Digest& digest);
  absl::Status Apply(const Digest& digest, const BlobChange& change);
  void Quarantine(const Digest& digest, std::string_view kind, std::string_view reason,
                  std::string_view value, int64_t now_unix_ms);

  RocksDatabase& database_;
  RocksDatabase::Batch batch_;
  TotalsRow totals_;
  std::map<Digest, BlobChange> blobs_;
  bool has_freed_blobs_ = false;
};

// What a row counts for in stored_bytes.
inline uint64_t RowBytes(std::string_view value) { return Digest::kSizeBytes + value.size(); }

}  // namespace kiln
