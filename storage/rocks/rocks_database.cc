#include "storage/rocks/rocks_database.h"

#include <rocksdb/listener.h>

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "storage/base/filesystem.h"
#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/rocks/rocks_options.h"
#include "storage/rocks/rocks_status.h"

namespace kiln {
namespace {

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

// RocksDB's threads call this when flush or compaction cannot go on.
class RocksDatabase::DamageListener final : public rocksdb::EventListener {
 public:
  explicit DamageListener(RocksDatabase& database) : database_(database) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    LogError("the store's background work failed",
             {{"path", database_.path_}, {"error", error->ToString()}});
    if (error->IsCorruption()) {
      database_.MarkDamaged(*error);
    } else if (IsNoSpace(*error)) {
      database_.SetDegraded(database_.FullReason());
    }
  }

  // RocksDB checks for free space every five seconds.
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    if (info.new_bg_error.ok()) database_.ClearDegraded();
  }

 private:
  RocksDatabase& database_;
};

absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(const std::string& path,
                                                                   uint64_t expected_bytes,
                                                                   rocksdb::Env* env,
                                                                   RocksAccess access) {
  std::unique_ptr<RocksDatabase> database(new RocksDatabase(path, access));
  rocksdb::DBOptions options = RocksDatabaseOptions(expected_bytes);
  if (env != nullptr) options.env = env;
  options.listeners.push_back(std::make_shared<DamageListener>(*database));

  const auto descriptors = RocksFamilies(expected_bytes);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      access == RocksAccess::kWrite
          ? rocksdb::DB::Open(options, path, descriptors, &handles, &db)
          : rocksdb::DB::OpenForReadOnly(options, path, descriptors, &handles, &db);
  if (!status.ok()) return FromRocks(status, "open " + path);
  database->db_.reset(db);
  std::copy(handles.begin(), handles.end(), database->families_.begin());
  std::unique_ptr<rocksdb::LogFile> log;
  if (access == RocksAccess::kWrite && db->GetCurrentWalFile(&log).ok()) {
    // Without it, a log that is removed may not be missed.
    (void)rocksdb::WriteStringToFile(options.env, std::to_string(log->LogNumber()),
                                     fmt::format("{}/{}", path, kLogMarker));
  }
  return database;
}

RocksDatabase::~RocksDatabase() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : families_) db_->DestroyColumnFamilyHandle(handle);
  const rocksdb::Status status = db_->Close();
  if (!status.ok()) {
    LogWarning("closing the store failed", {{"path", path_}, {"error", status.ToString()}});
  }
}

absl::StatusOr<std::optional<std::string>> RocksDatabase::Get(RocksFamily family,
                                                              std::string_view key) const {
  std::string value;
  const rocksdb::Status status =
      db_->Get(rocksdb::ReadOptions(), Handle(family), ToSlice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return FromRocks(status, "read the store");
  return value;
}

void RocksDatabase::Batch::Put(RocksFamily family, std::string_view key, std::string_view value) {
  // Fails only past 4 GiB, which the limits on records and blobs exclude.
  (void)rows_.Put(database_.Handle(family), ToSlice(key), ToSlice(value));
}

void RocksDatabase::Batch::Delete(RocksFamily family, std::string_view key) {
  (void)rows_.Delete(database_.Handle(family), ToSlice(key));
}

absl::Status RocksDatabase::Write(Batch& batch) {
  if (access_ == RocksAccess::kRead) return ResourceExhausted("{}", FullReason());
  const MutexLock lock(writing_);
  // After a failed write of its log, RocksDB 7.8 goes on with that log where it has nothing in
  // memory to flush, and the next write fails an assertion. A row that is in no log keeps something
  // in memory. (github.com/facebook/rocksdb/issues/12998)
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  rocksdb::Status status = db_->Put(unlogged, Handle(RocksFamily::kDefault), "unlogged", "");
  if (status.ok()) status = db_->Write(rocksdb::WriteOptions(), &batch.rows_);
  if (!status.ok()) return OnWriteFailed(status);
  if (is_degraded_) ClearDegraded();
  return absl::OkStatus();
}

std::string RocksDatabase::FullReason() const {
  return fmt::format("the disk under {} is full", path_);
}

absl::Status RocksDatabase::OnWriteFailed(const rocksdb::Status& status) {
  if (IsNoSpace(status)) {
    SetDegraded(FullReason());
    return ResourceExhausted("{}; free some space", FullReason());
  }
  const std::string reason = fmt::format(
      "RocksDB refuses writes ({}): see the log, then restart the daemon", status.ToString());
  SetDegraded(reason);
  // Never DATA_LOSS, which is about a stored value.
  return Internal("{}", reason);
}

void RocksDatabase::SetDegraded(std::string reason) {
  MutexLock lock(mutex_);
  if (!is_degraded_.exchange(true)) {
    LogError("the store takes no artifacts", {{"path", path_}, {"reason", reason}});
  }
  degraded_ = std::move(reason);
}

void RocksDatabase::ClearDegraded() {
  const MutexLock lock(mutex_);
  if (!is_degraded_.exchange(false)) return;
  degraded_.clear();
  LogInfo("the store takes artifacts again", {{"path", path_}});
}

void RocksDatabase::MarkDamaged(const rocksdb::Status& status) {
  const std::string marker = fmt::format("{}/{}", path_, kDamagedMarker);
  const absl::Status written = OsFilesystem().WriteNew(marker, status.ToString() + "\n", 0600);
  if (!written.ok() && !absl::IsAlreadyExists(written)) {
    LogWarning("could not mark the store as damaged", {{"error", Message(written)}});
  }
  SetDegraded(fmt::format("damaged ({}): restart the daemon, which keeps what is whole",
                          status.ToString()));
}

std::unique_ptr<rocksdb::Iterator> RocksDatabase::Iterate(RocksFamily family) const {
  return std::unique_ptr<rocksdb::Iterator>(
      db_->NewIterator(rocksdb::ReadOptions(), Handle(family)));
}

uint64_t RocksDatabase::FileBytes() const {
  uint64_t bytes = BlobFileBytes();
  for (size_t i = 0; i < families_.size(); ++i) {
    if (static_cast<RocksFamily>(i) != RocksFamily::kBlobs) bytes += TableBytes(families_[i]);
  }
  return bytes;
}

uint64_t RocksDatabase::BlobFileBytes() const {
  rocksdb::ColumnFamilyHandle* const handle = Handle(RocksFamily::kBlobs);
  uint64_t bytes = 0;
  (void)db_->GetIntProperty(handle, rocksdb::DB::Properties::kTotalBlobFileSize, &bytes);
  return bytes + TableBytes(handle);
}

uint64_t RocksDatabase::TableBytes(rocksdb::ColumnFamilyHandle* handle) const {
  uint64_t bytes = 0;
  (void)db_->GetIntProperty(handle, rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
  return bytes;
}

absl::Status RocksDatabase::CollectGarbage(double share, std::atomic<bool>& cancelled) {
  assert(access_ == RocksAccess::kWrite);
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  options.blob_garbage_collection_age_cutoff = share;
  options.canceled = &cancelled;
  // Flushes first. Tables hold keys only, so the cost is the live blobs of the removed files.
  const rocksdb::Status status =
      db_->CompactRange(options, Handle(RocksFamily::kBlobs), nullptr, nullptr);
  // CompactRange returns before the old files are deleted. This waits for the deletion.
  if (db_->PauseBackgroundWork().ok()) db_->ContinueBackgroundWork().PermitUncheckedError();
  return status.ok() ? absl::OkStatus() : FromRocks(status, "collect garbage");
}

std::string RocksDatabase::Degraded() const {
  MutexLock lock(mutex_);
  return degraded_;
}

}  // namespace kiln
