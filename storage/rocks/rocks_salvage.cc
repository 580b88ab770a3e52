#include "storage/rocks/rocks_salvage.h"

#include <rocksdb/db.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/utilities/ldb_cmd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/log.h"
#include "storage/rocks/rocks_change.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_options.h"
#include "storage/rocks/rocks_status.h"
#include "storage/rocks/rocks_store.h"
#include "storage/rocks/rocks_walk.h"

namespace kiln {
namespace {

constexpr std::string_view kManifest = "MANIFEST-";

bool IsNeverWrittenAgain(std::string_view name) {
  return name.ends_with(".sst") || name.ends_with(".blob") || name.ends_with(".log") ||
         name.starts_with(kManifest);
}

std::string CurrentManifest(rocksdb::Env& env, const std::string& from, const std::string& newest) {
  std::string current;
  if (!rocksdb::ReadFileToString(&env, from + "/CURRENT", &current).ok()) return newest;
  current = current.substr(0, current.find('\n'));
  const bool is_there = current.starts_with(kManifest) && env.FileExists(from + "/" + current).ok();
  return is_there ? current : newest;
}

absl::Status LinkFiles(rocksdb::Env& env, const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  rocksdb::Status status = env.GetChildren(from, &names);
  if (status.ok()) status = env.CreateDir(to);
  if (!status.ok()) return FromRocks(status, "make " + to);
  std::string newest;
  for (const std::string& name : names) {
    if (!IsNeverWrittenAgain(name)) continue;
    // What is no file, or cannot be linked, counts as missing.
    if (!env.LinkFile(fmt::format("{}/{}", from, name), fmt::format("{}/{}", to, name)).ok()) {
      continue;
    }
    const auto age = [](const std::string& file) { return std::tuple(file.size(), file); };
    if (name.starts_with(kManifest))
      newest =
          std::max(newest, name, [&](auto& one, auto& other) { return age(one) < age(other); });
  }
  const std::string current = CurrentManifest(env, from, newest) + "\n";
  status = rocksdb::WriteStringToFile(&env, current, to + "/CURRENT");
  return status.ok() ? absl::OkStatus() : FromRocks(status, "write CURRENT");
}

// Opens tables and logs in spite of damage. Writes what is whole of the log into tables.
rocksdb::Options TolerantOptions(uint64_t expected_bytes, rocksdb::Env& env) {
  rocksdb::Options options(RocksDatabaseOptions(expected_bytes), {});
  options.env = &env;
  options.paranoid_checks = false;
  options.track_and_verify_wals_in_manifest = false;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  return options;
}

bool IsWhole(const rocksdb::Options& options, const std::string& path, uint64_t expected_size) {
  uint64_t size = 0;
  if (!options.env->GetFileSize(path, &size).ok() || size != expected_size) return false;
  rocksdb::SstFileReader table(options);
  return table.Open(path).ok() && table.VerifyChecksum().ok();
}

absl::StatusOr<std::vector<uint64_t>> FindDamagedTables(
    const rocksdb::Options& options, std::vector<rocksdb::ColumnFamilyDescriptor> families,
    const std::string& path) {
  for (auto& family : families) family.options.disable_auto_compactions = true;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, families, &handles, &opened);
  if (!status.ok()) return FromRocks(status, "open " + path);
  const std::unique_ptr<rocksdb::DB> database(opened);
  std::vector<rocksdb::LiveFileMetaData> tables;
  database->GetLiveFilesMetaData(&tables);
  for (auto* handle : handles) (void)database->DestroyColumnFamilyHandle(handle);
  std::vector<uint64_t> damaged;
  for (const rocksdb::LiveFileMetaData& table : tables) {
    if (IsWhole(options, path + table.name, table.size)) continue;
    damaged.push_back(table.file_number);
    LogError("a table of the store is lost",
             {{"table", table.name}, {"holds", table.column_family_name}});
  }
  return damaged;
}

// Removes the table from the manifest.
absl::Status ForgetTable(const rocksdb::Options& options,
                         const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                         const std::string& path, uint64_t table) {
  const std::unique_ptr<rocksdb::LDBCommand> command(rocksdb::LDBCommand::InitFromCmdLineArgs(
      {"unsafe_remove_sst_file", "--db=" + path, std::to_string(table)}, options, {}, &families));
  command->Run();
  rocksdb::LDBCommandExecuteResult result = command->GetExecuteState();
  return result.IsSucceed() ? absl::OkStatus() : DataLoss("{}", result.ToString());
}

// The families lost different rows. Gives every blob that a record names a row in `references`, and
// makes the totals anew. Until `read_until` reads every blob; those that it does not come to stay
// as they are counted.
absl::Status MendBooks(RocksDatabase& database, SteadyTime read_until) {
  std::unordered_map<Digest, uint32_t, DigestHash> counts;
  for (RocksWalk rows(database.Iterate(RocksFamily::kArtifacts)); rows.Valid(); rows.Next()) {
    const auto key = Digest::FromBytes(rows.key());
    const auto record = key.ok() ? DecodeRecordRow(rows.value(), *key) : key.status();
    if (!record.ok()) continue;
    for (const StageReference& stage : record->stages) ++counts[stage.digest];
  }
  RocksDatabase::Batch batch(database);
  for (const auto& [digest, count] : counts) {
    const auto row = database.Get(RocksFamily::kReferences, digest.Bytes());
    const bool is_counted = row.ok() && row->has_value() && DecodeReferences(**row);
    if (is_counted && SystemClock().Now() >= read_until) continue;
    const auto blob = database.Get(RocksFamily::kBlobs, digest.Bytes());
    if (!blob.ok()) batch.Delete(RocksFamily::kBlobs, digest.Bytes());
    const bool is_held = blob.ok() && blob->has_value();
    batch.Put(RocksFamily::kReferences, digest.Bytes(),
              EncodeReferences({count, is_held ? RowBytes(**blob) : 0}));
  }
  batch.Delete(RocksFamily::kMeta, kTotalsRow);
  KILN_RETURN_IF_ERROR(database.Write(batch));
  KILN_ASSIGN_OR_RETURN(TotalsRow totals, RocksStore::ReadTotals(database));
  totals.references_are_high = true;
  return RocksChange(database, totals).Commit();
}

}  // namespace

absl::Status SalvageRocksStore(const std::string& from, const std::string& to,
                               uint64_t expected_bytes, rocksdb::Env* env,
                               std::chrono::milliseconds reading_time_max) {
  if (env == nullptr) env = rocksdb::Env::Default();
  KILN_RETURN_IF_ERROR(LinkFiles(*env, from, to));
  const rocksdb::Options options = TolerantOptions(expected_bytes, *env);
  const auto families = RocksFamilies(expected_bytes);
  KILN_ASSIGN_OR_RETURN(const auto damaged, FindDamagedTables(options, families, to));
  for (const uint64_t table : damaged) {
    KILN_RETURN_IF_ERROR(ForgetTable(options, families, to, table));
  }
  KILN_ASSIGN_OR_RETURN(const auto database, RocksDatabase::Open(to, expected_bytes, env));
  const bool read_all = env->FileExists(fmt::format("{}/{}", from, kDamagedMarker)).ok();
  return MendBooks(*database,
                   read_all ? SystemClock().Now() + reading_time_max : SteadyTime::min());
}

}  // namespace kiln
