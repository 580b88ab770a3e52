#include "storage/rocks/rocks_open.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "storage/base/unique_fd.h"
#include "storage/rocks/rocks_options.h"
#include "storage/waiting_store.h"
#include "tests/unit/storage/rocks/rocks_fixture.h"

namespace kiln {
namespace {

using absl::StatusCode;
namespace fs = std::filesystem;

class RocksOpenTest : public RocksFixture {
 protected:
  // A store with one artifact, written out into tables, closed.
  void MakeStore() {
    Reopen();
    ASSERT_TRUE(Put(made_).ok());
    // Opening writes what the log holds into tables.
    Reopen();
    Close();
  }
  std::string FileLike(const std::string& part) const {
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().filename().string().find(part) != std::string::npos) return entry.path();
    }
    ADD_FAILURE() << "no file like " << part;
    return "";
  }
  static std::set<std::string> Names(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("LOG")) names.insert(name);
    }
    return names;
  }
  // The files of the damaged store stay as they are.
  void ExpectSetAside() {
    const auto before = Snapshot(path());
    Reopen();
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(report_.set_aside, fmt::format("{}.damaged-{}", path(), clock_.UnixMillis()));
    EXPECT_NE(report_.damage, "");
    ASSERT_TRUE(Put(MakeArtifact("another")).ok());
    ExpectStored(MakeArtifact("another"));
    Reopen();
    EXPECT_EQ(Snapshot(report_.set_aside.empty() ? set_aside() : report_.set_aside), before);
    EXPECT_FALSE(fs::exists(path() + ".salvaged"));
  }
  void ExpectSetAsideAndKept() {
    ExpectSetAside();
    ExpectStored(made_);
  }
  void ExpectSetAsideAndLost() {
    ExpectSetAside();
    EXPECT_EQ(RecordCode(made_.record.key), StatusCode::kNotFound);
  }
  std::string set_aside() const {
    return fmt::format("{}.damaged-{}", path(), clock_.UnixMillis());
  }
  absl::Status OpenStatus() { return OpenRocksStore(options(), filesystem_, clock_).status(); }
  static uid_t Unprivileged() { return geteuid() == 0 ? 65534 : geteuid(); }
  void GiveTo(uid_t user) {
    ASSERT_EQ(chown(directory_.path().c_str(), user, static_cast<gid_t>(-1)), 0);
    ASSERT_EQ(chown(path().c_str(), user, static_cast<gid_t>(-1)), 0);
    for (const auto& entry : fs::directory_iterator(path())) {
      ASSERT_EQ(chown(entry.path().c_str(), user, static_cast<gid_t>(-1)), 0);
    }
  }
  // What opening it says in a process of that user.
  absl::Status OpenStatusAs(uid_t user) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(user) != 0) _exit(2);
      const absl::Status status = OpenStatus();
      const std::string report = static_cast<char>(status.code()) + std::string(Message(status));
      const auto written = write(write_end.get(), report.data(), report.size());
      _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 3);
    }
    write_end.Reset();
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    char report[4096];
    const ssize_t size = read(read_end.get(), report, sizeof report);
    if (size <= 0) return Internal("no report, status {}", ended);
    return absl::Status(static_cast<StatusCode>(report[0]),
                        absl::string_view(report + 1, static_cast<size_t>(size) - 1));
  }
  // Name and content of every file.
  static std::map<std::string, std::string> Snapshot(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const std::string& name : Names(directory)) {
      files[name] = ReadFileOrDie(fmt::format("{}/{}", directory, name));
    }
    return files;
  }
  void AwaitSpace() { dynamic_cast<WaitingStore&>(*store_).WaitUntilOpen(); }
  void ExpectNothingSetAside() {
    EXPECT_TRUE(fs::exists(path()));
    EXPECT_EQ(Names(directory_.path()), std::set<std::string>{"store"});
  }

  const MadeArtifact made_ = MakeArtifact("kept");
};

TEST_F(RocksOpenTest, ANewDirectoryIsMade) {
  Reopen();
  EXPECT_TRUE(report_.is_new);
  EXPECT_EQ(report_.set_aside, "");
  Reopen();
  EXPECT_FALSE(report_.is_new);
}

TEST_F(RocksOpenTest, AWholeStoreIsOpened) {
  MakeStore();
  Reopen();
  EXPECT_EQ(report_.damage, "");
  ExpectStored(made_);
}

TEST_F(RocksOpenTest, AStoreWithoutCurrentIsSetAsideAndKept) {
  MakeStore();
  fs::remove(path() + "/CURRENT");
  ExpectSetAsideAndKept();
}

TEST_F(RocksOpenTest, AStoreWithGarbageInCurrentIsSetAsideAndKept) {
  MakeStore();
  WriteFileOrDie(path() + "/CURRENT", "not a manifest\n");
  ExpectSetAsideAndKept();
}

TEST_F(RocksOpenTest, AStoreWithAnEmptyCurrentIsSetAsideAndKept) {
  MakeStore();
  WriteFileOrDie(path() + "/CURRENT", "");
  ExpectSetAsideAndKept();
}

TEST_F(RocksOpenTest, AStoreWithoutManifestIsLost) {
  MakeStore();
  fs::remove(FileLike("MANIFEST"));
  ExpectSetAsideAndLost();
}

TEST_F(RocksOpenTest, AStoreWithGarbageInTheManifestIsLost) {
  MakeStore();
  WriteFileOrDie(FileLike("MANIFEST"), Noise(1, 4000));
  ExpectSetAsideAndLost();
}

// Empty logs of earlier opens stay.
TEST_F(RocksOpenTest, AStoreWhoseLogIsGoneIsSetAsideAndItsTablesKept) {
  MakeStore();
  const std::string number = ReadFileOrDie(fmt::format("{}/{}", path(), kLogMarker));
  fs::remove(FileLike(number + ".log"));
  ExpectSetAsideAndKept();
}

TEST_F(RocksOpenTest, ALogThatIsGoneBeforeAnythingWasInTablesIsNoticed) {
  Reopen();
  ASSERT_TRUE(Put(made_).ok());
  Close();
  const std::string number = ReadFileOrDie(fmt::format("{}/{}", path(), kLogMarker));
  fs::remove(FileLike(number + ".log"));
  ExpectSetAsideAndLost();
}

TEST_F(RocksOpenTest, AStoreMarkedAsDamagedIsSetAsideAndKept) {
  MakeStore();
  WriteFileOrDie(fmt::format("{}/{}", path(), kDamagedMarker), "a bad block\n");
  Reopen();
  EXPECT_NE(report_.damage.find("a bad block"), std::string::npos) << report_.damage;
  EXPECT_TRUE(fs::exists(report_.set_aside));
  ExpectStored(made_);
}

TEST_F(RocksOpenTest, AnUnreadableSchemaIsSetAside) {
  MakeStore();
  {
    auto database = RocksDatabase::Open(path(), kExpectedBytes);
    ASSERT_TRUE(database.ok());
    RocksDatabase::Batch batch(**database);
    batch.Put(RocksFamily::kMeta, kSchemaRow, "one");
    ASSERT_TRUE((*database)->Write(batch).ok());
  }
  ExpectSetAsideAndLost();
}

TEST_F(RocksOpenTest, AStoreThatTakesTooLongIsSetAside) {
  MakeStore();
  RocksStoreOptions impatient = options();
  impatient.open_time_max = std::chrono::milliseconds(0);
  const auto opened = OpenRocksStore(impatient, filesystem_, clock_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(fs::exists(opened->report.set_aside));
}

TEST_F(RocksOpenTest, TargetOfASymbolicLinkIsSetAside) {
  fs::create_directory(directory_.File("elsewhere"));
  fs::create_directory_symlink(directory_.File("elsewhere"), path());
  Reopen();
  Close();
  fs::remove(directory_.File("elsewhere/CURRENT"));
  Reopen();
  EXPECT_TRUE(report_.set_aside.starts_with(directory_.File("elsewhere.damaged-")));
  EXPECT_TRUE(fs::is_symlink(path()));
}

TEST_F(RocksOpenTest, ANewerSchemaIsRefusedWithBothVersionsAndNothingTouched) {
  MakeStore();
  {
    auto database = RocksDatabase::Open(path(), kExpectedBytes);
    ASSERT_TRUE(database.ok());
    RocksDatabase::Batch batch(**database);
    batch.Put(RocksFamily::kMeta, kSchemaRow, "77");
    ASSERT_TRUE((*database)->Write(batch).ok());
  }
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(Message(refused).find("version 77"), std::string_view::npos) << refused;
  EXPECT_NE(Message(refused).find(fmt::format("version {}", kRocksSchemaVersion)),
            std::string_view::npos)
      << refused;
  ExpectNothingSetAside();
}

TEST_F(RocksOpenTest, AnOlderSchemaIsTakenOverAndRefusedToOlderProgramsFromThenOn) {
  MakeStore();
  {
    auto database = RocksDatabase::Open(path(), kExpectedBytes);
    ASSERT_TRUE(database.ok());
    RocksDatabase::Batch batch(**database);
    batch.Put(RocksFamily::kMeta, kSchemaRow, "1");
    ASSERT_TRUE((*database)->Write(batch).ok());
  }
  Reopen();
  ExpectNothingSetAside();
  EXPECT_TRUE(Put(made_).ok());
  Close();
  auto database = RocksDatabase::Open(path(), kExpectedBytes, nullptr, RocksAccess::kRead);
  ASSERT_TRUE(database.ok());
  EXPECT_EQ((*database)->Get(RocksFamily::kMeta, kSchemaRow).value(),
            std::to_string(kRocksSchemaVersion));
}

TEST_F(RocksOpenTest, AFamilyFromANewerProgramIsRefused) {
  MakeStore();
  {
    rocksdb::DBOptions database_options;
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const char* name : kRocksFamilyNames)
      descriptors.emplace_back(name, rocksdb::ColumnFamilyOptions());
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(database_options, path(), descriptors, &handles, &raw).ok());
    const std::unique_ptr<rocksdb::DB> database(raw);
    rocksdb::ColumnFamilyHandle* added = nullptr;
    ASSERT_TRUE(database->CreateColumnFamily({}, "inventions", &added).ok());
    handles.push_back(added);
    for (auto* handle : handles) ASSERT_TRUE(database->DestroyColumnFamilyHandle(handle).ok());
  }
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(Message(refused).find("inventions"), std::string_view::npos) << refused;
  ExpectNothingSetAside();
}

TEST_F(RocksOpenTest, AStoreInUseIsRefusedAndLeftAlone) {
  Reopen();
  ASSERT_TRUE(Put(made_).ok());
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(Message(refused).find("in use"), std::string_view::npos) << refused;
  ExpectNothingSetAside();
  ExpectStored(made_);
}

TEST_F(RocksOpenTest, AFileInItsPlaceIsRefused) {
  WriteFileOrDie(path(), "a file");
  EXPECT_EQ(OpenStatus().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFileOrDie(path()), "a file");
}

TEST_F(RocksOpenTest, MissingParentIsReported) {
  RocksStoreOptions lost = options();
  lost.path = directory_.File("no/such/store");
  EXPECT_EQ(OpenRocksStore(lost, filesystem_, clock_).status().code(), StatusCode::kNotFound);
}

// As another user than root, whom nothing would stop.
TEST_F(RocksOpenTest, AReadOnlyDirectoryIsReportedAndLeftAlone) {
  MakeStore();
  GiveTo(Unprivileged());
  ASSERT_EQ(chmod(path().c_str(), 0555), 0);
  const absl::Status refused = OpenStatusAs(Unprivileged());
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  EXPECT_NE(Message(refused).find("give uid"), std::string_view::npos) << refused;
  ExpectNothingSetAside();
}

// Its files can be listed, and not one be read.
TEST_F(RocksOpenTest, UnreadableFilesAreReportedAndLeftAlone) {
  MakeStore();
  GiveTo(Unprivileged());
  for (const char* part : {"MANIFEST", ".sst"}) {
    const std::string file = FileLike(part);
    ASSERT_EQ(chmod(file.c_str(), 0), 0);
    const absl::Status refused = OpenStatusAs(Unprivileged());
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
    ASSERT_EQ(chmod(file.c_str(), 0600), 0);
    ExpectNothingSetAside();
  }
}

// Needs no second user where we are not root: the root directory belongs to another one then.
TEST_F(RocksOpenTest, ADirectoryOfAnotherUserIsReportedAndLeftAlone) {
  absl::Status refused;
  if (geteuid() == 0) {
    MakeStore();
    GiveTo(65534);
    refused = OpenStatus();
    ExpectNothingSetAside();
  } else {
    RocksStoreOptions foreign = options();
    foreign.path = "/usr";
    refused = OpenRocksStore(foreign, filesystem_, clock_).status();
  }
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(Message(refused).find("chown"), std::string_view::npos) << refused;
}

TEST_F(RocksOpenTest, AReadOnlyDiskIsReportedAndLeftAlone) {
  MakeStore();
  filesystem_.FailWritesWith(EROFS);
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(refused).find(path()), std::string_view::npos) << refused;
  ExpectNothingSetAside();
}

TEST_F(RocksOpenTest, OnAFullDiskTheStoreIsReadAndTakesPutsOnceThereIsSpace) {
  MakeStore();
  const auto before = Snapshot(path());
  filesystem_.FailWritesWith(ENOSPC);
  Reopen();
  ASSERT_NE(store_, nullptr);
  EXPECT_NE(report_.waits_because.find("free some space"), std::string::npos);
  EXPECT_EQ(store().Stats().degraded, report_.waits_because);
  EXPECT_EQ(store().Stats().artifacts, 1u);
  ExpectStored(made_);
  const MadeArtifact late = MakeArtifact("late");
  EXPECT_EQ(Put(late).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RecordCode(late.record.key), StatusCode::kNotFound);
  // Not a byte of it has changed.
  EXPECT_EQ(Snapshot(path()), before);

  filesystem_.FailWritesWith(0);
  AwaitSpace();
  ExpectStored(made_);
  EXPECT_TRUE(Put(late).ok());
  ExpectNothingSetAside();
  Reopen();
  ExpectStored(made_);
  ExpectStored(late);
}

// Its rows are in the log, which an open for writing would have turned into tables.
TEST_F(RocksOpenTest, OnAFullDiskTheLogIsReadToo) {
  Reopen();
  ASSERT_TRUE(Put(made_).ok());
  Close();
  filesystem_.FailWritesWith(ENOSPC);
  Reopen();
  ExpectStored(made_);
}

TEST_F(RocksOpenTest, OnADiskThatIsFullFromTheStartNothingIsStoredUntilThereIsSpace) {
  filesystem_.FailWritesWith(ENOSPC);
  Reopen();
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(RecordCode(made_.record.key), StatusCode::kNotFound);
  EXPECT_EQ(Put(made_).code(), StatusCode::kResourceExhausted);
  filesystem_.FailWritesWith(0);
  AwaitSpace();
  EXPECT_TRUE(Put(made_).ok());
  ExpectNothingSetAside();
  Reopen();
  ExpectStored(made_);
}

// There is room for a file, but not for what the log would become.
TEST_F(RocksOpenTest, DiskWithoutSpaceForTheTablesOfTheLogIsFull) {
  Reopen();
  const MadeArtifact large = MakeArtifact("large", 3 * limits::kMiB);
  ASSERT_TRUE(Put(large).ok());
  Close();
  filesystem_.SetFreeBytes(2 * limits::kMiB);
  Reopen();
  EXPECT_NE(report_.waits_because.find("2048 KiB are free"), std::string::npos)
      << report_.waits_because;
  ExpectStored(large);
  filesystem_.SetFreeBytes(64 * limits::kMiB);
  AwaitSpace();
  ExpectStored(large);
}

TEST_F(RocksOpenTest, ADamagedStoreIsNotSetAsideBeforeThereIsSpace) {
  MakeStore();
  fs::resize_file(FileLike(".sst"), 100);
  filesystem_.FailWritesWith(ENOSPC);
  Reopen();
  ASSERT_NE(store_, nullptr);
  EXPECT_NE(report_.damage, "");
  EXPECT_EQ(RecordCode(made_.record.key), StatusCode::kNotFound);
  ExpectNothingSetAside();
  Close();
  ExpectNothingSetAside();

  Reopen();
  filesystem_.FailWritesWith(0);
  AwaitSpace();
  EXPECT_TRUE(fs::exists(fmt::format("{}.damaged-{}", path(), clock_.UnixMillis())));
  EXPECT_TRUE(Put(made_).ok());
}

// As RocksDB leaves it where the disk fills up while it makes a database.
TEST_F(RocksOpenTest, ADatabaseThatWasNeverFinishedIsNoDamage) {
  fs::create_directory(path());
  for (const char* name : {"MANIFEST-000001", "000001.dbtmp", "OPTIONS-000003", "LOCK"}) {
    WriteFileOrDie(fmt::format("{}/{}", path(), name), "");
  }
  Reopen();
  EXPECT_EQ(report_.set_aside, "");
  EXPECT_TRUE(Put(made_).ok());
}

// Families are made one after the other, and the disk may fill up between two of them.
TEST_F(RocksOpenTest, ADatabaseThatLacksFamiliesIsFinishedOnceThereIsSpace) {
  {
    rocksdb::Options bare;
    bare.create_if_missing = true;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(bare, path(), &raw).ok());
    delete raw;
  }
  filesystem_.FailWritesWith(ENOSPC);
  Reopen();
  ASSERT_NE(store_, nullptr);
  EXPECT_EQ(RecordCode(made_.record.key), StatusCode::kNotFound);
  filesystem_.FailWritesWith(0);
  AwaitSpace();
  ExpectNothingSetAside();
  EXPECT_TRUE(Put(made_).ok());
}

TEST_F(RocksOpenTest, ANewerSchemaIsRefusedOnAFullDiskToo) {
  MakeStore();
  {
    auto database = RocksDatabase::Open(path(), kExpectedBytes);
    ASSERT_TRUE(database.ok());
    RocksDatabase::Batch batch(**database);
    batch.Put(RocksFamily::kMeta, kSchemaRow, "77");
    ASSERT_TRUE((*database)->Write(batch).ok());
  }
  filesystem_.FailWritesWith(ENOSPC);
  EXPECT_EQ(OpenStatus().code(), StatusCode::kFailedPrecondition);
}

// What reads a store beside the one that writes it must not tidy up after that.
TEST_F(RocksOpenTest, ClosingAStoreOpenedForReadingDeletesNothing) {
  MakeStore();
  auto reading = RocksDatabase::Open(path(), kExpectedBytes, nullptr, RocksAccess::kRead);
  ASSERT_TRUE(reading.ok()) << reading.status();
  RocksDatabase::Batch batch(**reading);
  EXPECT_EQ((*reading)->Write(batch).code(), StatusCode::kResourceExhausted);

  Reopen();
  const MadeArtifact late = MakeArtifact("late", 3 * limits::kMiB);
  ASSERT_TRUE(Put(late).ok());
  Reopen();  // makes new tables
  const std::set<std::string> before = Names(path());
  reading->reset();
  EXPECT_EQ(Names(path()), before);
  ExpectStored(made_);
  ExpectStored(late);
  Reopen();
  ExpectStored(late);
}

}  // namespace
}  // namespace kiln
