#include "storage/rocks/rocks_options.h"

#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using limits::kKiB;
using limits::kMiB;

// Sends RocksDB's log lines to the daemon's log. Replaces RocksDB's own logger: Debian builds
// RocksDB with assertions, and that logger ends the process on the first line after a full disk.
// RocksDB's warnings are routine and become debug lines. Thread-safe.
class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }

  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < GetInfoLogLevel()) return;
    char line[1024];
    const int length = std::vsnprintf(line, sizeof line, format, arguments);
    if (length < 0) return;
    if (level >= rocksdb::InfoLogLevel::ERROR_LEVEL) {
      LogWarning("rocksdb", {{"says", std::string_view(line)}});
    } else {
      LogDebug("rocksdb", {{"says", std::string_view(line)}});
    }
  }
};

uint64_t BlobBufferBytes(uint64_t expected_bytes) {
  return std::clamp<uint64_t>(expected_bytes / 32, 512 * kKiB, 32 * kMiB);
}

}  // namespace

uint64_t RocksBlobFileBytes(uint64_t expected_bytes) {
  return std::clamp<uint64_t>(expected_bytes / 32, 512 * kKiB, 64 * kMiB);
}

rocksdb::DBOptions RocksDatabaseOptions(uint64_t expected_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  // The families have some dozen small tables together. By default 15 threads start for each of
  // them.
  options.max_file_opening_threads = 1;
  // All families share the log. Without a limit, a family without writes would keep it for ever.
  options.max_total_wal_size = 2 * BlobBufferBytes(expected_bytes);
  options.info_log = std::make_shared<RocksLogger>();
  // A torn last write is no damage: it was not acknowledged. Other damage to a log, and a log that
  // is gone, fail the open, which is said and salvaged (rocks_salvage.h).
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  // The one row that is in no log (RocksDatabase::Write) need not be kept.
  options.avoid_flush_during_shutdown = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::ColumnFamilyOptions RocksFamilyOptions(RocksFamily family, uint64_t expected_bytes) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions table;
  // The kernel caches the files. What is used often is in the memory tier.
  table.no_block_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Values are compressed before they get here.
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = std::min<uint64_t>(4 * kMiB, BlobBufferBytes(expected_bytes));
  options.max_write_buffer_number = 2;
  if (family == RocksFamily::kBlobs) {
    options.write_buffer_size = BlobBufferBytes(expected_bytes);
    options.enable_blob_files = true;
    options.min_blob_size = kKiB;
    options.blob_file_size = RocksBlobFileBytes(expected_bytes);
    options.enable_blob_garbage_collection = true;
  }
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> RocksFamilies(uint64_t expected_bytes) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kRocksFamilyNames.size(); ++i) {
    families.emplace_back(kRocksFamilyNames[i],
                          RocksFamilyOptions(static_cast<RocksFamily>(i), expected_bytes));
  }
  return families;
}

}  // namespace kiln
