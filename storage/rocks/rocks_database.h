// RocksDB with Kiln's column families and statuses. Knows why writes fail.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/rocks/rocks_schema.h"

namespace kiln {

enum class RocksAccess {
  // Opens an existing database without writing a byte: for a full disk. Another process may have it
  // open for writing.
  kRead,
  // Opens or creates a database.
  kWrite,
};

// Thread-safe. Blocks as the disk does.
class RocksDatabase {
 public:
  // Errors as FromRocks. `env` must outlive the database; null: the operating system.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(
      const std::string& path, uint64_t expected_bytes, rocksdb::Env* env = nullptr,
      RocksAccess access = RocksAccess::kWrite);
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  // Empty where there is no such row. DATA_LOSS where it is damaged.
  absl::StatusOr<std::optional<std::string>> Get(RocksFamily family, std::string_view key) const;

  // Rows that change together.
  class Batch {
   public:
    explicit Batch(const RocksDatabase& database) : database_(database) {}
    void Put(RocksFamily family, std::string_view key, std::string_view value);
    void Delete(RocksFamily family, std::string_view key);

   private:
    friend class RocksDatabase;
    const RocksDatabase& database_;
    rocksdb::WriteBatch rows_;
  };
  // Writes all rows or none. They survive the death of the process once this returns OK.
  // RESOURCE_EXHAUSTED: the disk is full; writes work again once there is space, unless the
  // database is open for reading only. INTERNAL: RocksDB refuses writes.
  absl::Status Write(Batch& batch);

  std::unique_ptr<rocksdb::Iterator> Iterate(RocksFamily family) const;
  RocksAccess access() const { return access_; }

  // The size of all tables and blob files with garbage, without RocksDB's log.
  uint64_t FileBytes() const;
  // The part of FileBytes that holds blobs.
  uint64_t BlobFileBytes() const;
  // Rewrites the live blobs of the oldest `share` (0 to 1) of the blob files and removes those
  // files. Stops with an error when `cancelled` becomes true. REQUIRES: access() is kWrite.
  absl::Status CollectGarbage(double share, std::atomic<bool>& cancelled);

  // Why writes fail at the moment. Empty: they work.
  std::string Degraded() const;

 private:
  class DamageListener;

  RocksDatabase(std::string path, RocksAccess access) : path_(std::move(path)), access_(access) {}
  rocksdb::ColumnFamilyHandle* Handle(RocksFamily family) const {
    return families_[static_cast<size_t>(family)];
  }
  uint64_t TableBytes(rocksdb::ColumnFamilyHandle* handle) const;
  absl::Status OnWriteFailed(const rocksdb::Status& status);
  void SetDegraded(std::string reason);
  void ClearDegraded();
  void MarkDamaged(const rocksdb::Status& status);
  std::string FullReason() const;

  const std::string path_;
  const RocksAccess access_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kRocksFamilyNames.size()> families_{};

  Mutex writing_;  // held over both rows of a write
  // Every write reads this flag. Only failures take the mutex.
  std::atomic<bool> is_degraded_ = false;
  mutable Mutex mutex_;
  std::string degraded_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
