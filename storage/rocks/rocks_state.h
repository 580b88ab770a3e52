// What the two faces of a RocksStore share: every operation on its rows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/background_task.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/rocks/rocks_change.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_reclaimer.h"
#include "storage/store.h"
#include "storage/use_counter.h"

namespace kiln {

// Readers take no lock. Whoever changes rows holds `writer_`, since counts and totals are read,
// changed and written; compression and reading stay outside of it.
//
// Thread-safe. Errors as BlobStore and ArtifactIndex say.
class RocksState {
 public:
  // Reads the totals, or counts them where that row is lost. `clock` must outlive the state.
  static absl::StatusOr<std::unique_ptr<RocksState>> Load(std::unique_ptr<RocksDatabase> database,
                                                          uint64_t expected_bytes,
                                                          const Clock& clock);
  ~RocksState();
  // The totals; where that row is lost they are counted, and written.
  static absl::StatusOr<TotalsRow> ReadTotals(RocksDatabase& database);

  absl::StatusOr<FoundBlob> GetBlob(const Digest& digest);
  absl::Status PutBlob(const Blob& blob);
  absl::StatusOr<std::vector<Digest>> FindMissing(std::span<const Digest> digests);

  absl::StatusOr<FoundArtifact> GetRecord(const Digest& key);
  absl::Status PutRecord(const ArtifactRecord& record, std::span<const Blob> blobs);
  absl::Status RemoveRecord(const Digest& key);
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const std::optional<Digest>& after, size_t limit);
  absl::Status SetPinned(const Digest& key, bool pinned);

  // Neither this nor a use that GetRecord counts is written on the caller's thread.
  void CountUses(std::span<const UseCount> uses);
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs();

  TotalsRow Totals() const;
  const RocksDatabase& database() const { return *database_; }
  // Waits until uses are written down and no garbage is being collected; for tests.
  void WaitUntilIdle();

 private:
  // A record's row as it is now.
  struct RecordRow {
    ArtifactRecord record;
    uint64_t row_bytes = 0;
  };

  RocksState(std::unique_ptr<RocksDatabase> database, const TotalsRow& totals,
             uint64_t expected_bytes, const Clock& clock);

  // NOT_FOUND, or DATA_LOSS with the damaged bytes in `*damaged` where there are any.
  absl::StatusOr<RecordRow> ReadRecord(const Digest& key, std::string* damaged) const;
  absl::StatusOr<Blob> ReadBlob(const Digest& digest, std::string* damaged) const;
  ArtifactUsage ReadUsage(const Digest& key) const;

  void QuarantineRecord(const Digest& key);
  void QuarantineBlob(const Digest& digest);
  // Takes what the key had before out of the books.
  absl::StatusOr<std::optional<RecordRow>> Replaced(RocksChange& change, const Digest& key)
      KILN_REQUIRES(writer_);
  absl::Status Commit(RocksChange& change) KILN_REQUIRES(writer_);

  void WriteUses();
  // A record that is lost to damage takes the names of its blobs with it, so their counts are too
  // high. Counts them anew. Puts wait while every record is read, seconds in a store of 10 GiB;
  // gets go on.
  absl::Status RecountReferences();

  const std::unique_ptr<RocksDatabase> database_;
  const Clock& clock_;
  UseCounter uses_;

  Mutex writer_;
  mutable Mutex totals_mutex_;
  TotalsRow totals_ KILN_GUARDED_BY(totals_mutex_);

  // Last: their threads stop before what they work on goes.
  RocksReclaimer reclaimer_;
  // A hit runs on a thread that serves clients, which must not wait for the disk.
  BackgroundTask use_writer_{[this] { WriteUses(); }};
};

}  // namespace kiln
