// The store on the disk: RocksDB, one directory, one process. storage/format.md describes its rows.
//
//   OpenRocksStore ── RocksStore ── RocksChange ── RocksDatabase ── rocksdb::DB
//                     operations    one batch      statuses
//
// A damaged value is DATA_LOSS once, then a miss; it is quarantined. A damaged database is set
// aside as a whole when it is opened (rocks_open.h). On a full disk only puts fail. QuotaStore
// limits the size, since RocksDB's own limit (SstFileManager::SetMaxAllowedSpaceUsage) can deadlock
// when a store is opened again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/background_task.h"
#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/mutex.h"
#include "storage/rocks/rocks_change.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_reclaimer.h"
#include "storage/store.h"
#include "storage/use_counter.h"

namespace kiln {

// Every acknowledged put survives the death of the process. Puts do not wait for the disk's own
// cache, so a power cut may lose the last seconds. Puts are written one after the other; gets run
// in parallel.
//
// Reads take no lock. Changes hold `writer_`, since they read, change and write counts and totals.
// Compression runs without the lock.
class RocksStore final : public Store {
 public:
  // OpenRocksStore calls this. `filesystem` and `clock` must outlive the store. Errors as
  // ReadTotals.
  static absl::StatusOr<std::unique_ptr<RocksStore>> Load(std::unique_ptr<RocksDatabase> database,
                                                          std::string path, uint64_t expected_bytes,
                                                          Filesystem& filesystem,
                                                          const Clock& clock);
  ~RocksStore() override;
  // Reads the totals. Counts and writes them where their row is lost.
  static absl::StatusOr<TotalsRow> ReadTotals(RocksDatabase& database);

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override;
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override;
  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override;
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override;
  absl::Status Remove(const CallContext& context, const Digest& key) override;
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override;
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                     const std::optional<Digest>& after,
                                                     size_t limit) override;
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override;
  std::string Describe() const override { return "rocks"; }
  StoreStats Stats() const override;
  // A thread of its own writes these uses and those of hits.
  void CountUses(std::span<const UseCount> uses) override;
  // Where a record was lost to damage, its blobs' reference counts are too high: counts them anew.
  // Puts wait while every record is read, seconds in a store of 10 GiB; gets go on.
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

  // Returns when uses are written and no garbage is collected. For tests.
  void WaitUntilIdle();

 private:
  // A record, the binary that stands in it, and the size of its row.
  struct RecordRow {
    ArtifactRecord record;
    std::optional<Blob> binary;
    uint64_t row_bytes = 0;
  };

  RocksStore(std::unique_ptr<RocksDatabase> database, const TotalsRow& totals, std::string path,
             uint64_t expected_bytes, Filesystem& filesystem, const Clock& clock);

  TotalsRow Totals() const;

  absl::StatusOr<RecordRow> ReadRecord(const Digest& key) const;
  // Whether the books say that the store holds the blob.
  absl::StatusOr<bool> HoldsBlob(const Digest& digest) const;
  absl::StatusOr<Blob> ReadBlob(const Digest& digest) const;
  ArtifactUsage ReadUsage(const Digest& key) const;
  // Adds the uses that are not written yet.
  void AddPendingUses(const Digest& key, ArtifactUsage& usage) const;
  void ForgetUses(const Digest& key);

  void QuarantineRecord(const Digest& key);
  void QuarantineBlob(const Digest& digest);
  // Releases the key's earlier record, or quarantines it where it is damaged.
  absl::StatusOr<std::optional<RecordRow>> Replaced(RocksChange& change, const Digest& key)
      KILN_REQUIRES(writer_);
  absl::Status Commit(RocksChange& change) KILN_REQUIRES(writer_);

  void WriteUses();

  const std::unique_ptr<RocksDatabase> database_;
  const std::string path_;
  Filesystem& filesystem_;
  const Clock& clock_;
  mutable Mutex uses_mutex_;
  UseCounter uses_ KILN_GUARDED_BY(uses_mutex_);

  Mutex writer_;
  mutable Mutex totals_mutex_;
  TotalsRow totals_ KILN_GUARDED_BY(totals_mutex_);

  // Last: their threads stop before the other members are destroyed.
  RocksReclaimer reclaimer_;
  // Hits run on threads that serve clients and must not wait for the disk.
  BackgroundTask use_writer_{{[this](const auto&) { WriteUses(); }}};
};

}  // namespace kiln
