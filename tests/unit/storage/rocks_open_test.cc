#include "storage/rocks_open.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "storage/rocks_options.h"
#include "tests/unit/storage/rocks_fixture.h"

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
  void ExpectSetAside() {
    const std::set<std::string> before = Names(path());
    Reopen();
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(report_.set_aside, fmt::format("{}.damaged-{}", path(), clock_.UnixMillis()));
    EXPECT_NE(report_.damage, "");
    EXPECT_TRUE(report_.is_new);
    EXPECT_EQ(RecordCode(made_.record.key), StatusCode::kNotFound);
    ASSERT_TRUE(Put(made_).ok());
    ExpectStored(made_);
    // Nothing of it was deleted.
    for (const std::string& name : before) {
      EXPECT_TRUE(fs::exists(report_.set_aside + "/" + name)) << name;
    }
  }
  absl::Status OpenStatus() { return OpenRocksStore(options(), filesystem_, clock_).status(); }
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

TEST_F(RocksOpenTest, MissingCurrentIsSetAside) {
  MakeStore();
  fs::remove(path() + "/CURRENT");
  ExpectSetAside();
}

TEST_F(RocksOpenTest, GarbageInCurrentIsSetAside) {
  MakeStore();
  WriteFileOrDie(path() + "/CURRENT", "not a manifest\n");
  ExpectSetAside();
}

TEST_F(RocksOpenTest, AnEmptyCurrentIsSetAside) {
  MakeStore();
  WriteFileOrDie(path() + "/CURRENT", "");
  ExpectSetAside();
}

TEST_F(RocksOpenTest, MissingManifestIsSetAside) {
  MakeStore();
  fs::remove(FileLike("MANIFEST"));
  ExpectSetAside();
}

TEST_F(RocksOpenTest, GarbageInTheManifestIsSetAside) {
  MakeStore();
  WriteFileOrDie(FileLike("MANIFEST"), Noise(1, 4000));
  ExpectSetAside();
}

TEST_F(RocksOpenTest, ATruncatedTableIsSetAside) {
  MakeStore();
  fs::resize_file(FileLike(".sst"), 100);
  ExpectSetAside();
}

TEST_F(RocksOpenTest, AMissingTableIsSetAside) {
  MakeStore();
  fs::remove(FileLike(".sst"));
  ExpectSetAside();
}

TEST_F(RocksOpenTest, AStoreMarkedAsDamagedIsSetAside) {
  MakeStore();
  WriteFileOrDie(fmt::format("{}/{}", path(), kDamagedMarker), "a bad block\n");
  ExpectSetAside();
  EXPECT_NE(report_.damage.find("a bad block"), std::string::npos) << report_.damage;
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
  ExpectSetAside();
}

TEST_F(RocksOpenTest, AStoreThatTakesTooLongIsSetAside) {
  MakeStore();
  RocksStoreOptions impatient = options();
  impatient.open_time_max = std::chrono::milliseconds(0);
  const auto opened = OpenRocksStore(impatient, filesystem_, clock_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(fs::exists(opened->report.set_aside));
}

TEST_F(RocksOpenTest, BehindALinkItIsTheTargetThatIsSetAside) {
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
  EXPECT_NE(Message(refused).find("version 1"), std::string_view::npos) << refused;
  ExpectNothingSetAside();
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

TEST_F(RocksOpenTest, AMissingParentIsSaidToBeMissing) {
  RocksStoreOptions lost = options();
  lost.path = directory_.File("no/such/store");
  EXPECT_EQ(OpenRocksStore(lost, filesystem_, clock_).status().code(), StatusCode::kNotFound);
}

// Root may write anywhere, so for root it is the owner that is wrong, for others the mode.
TEST_F(RocksOpenTest, ADirectoryThatIsNotOursIsReportedAndLeftAlone) {
  MakeStore();
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
    EXPECT_EQ(OpenStatus().code(), StatusCode::kFailedPrecondition);
  } else {
    ASSERT_EQ(chmod(path().c_str(), 0500), 0);
    EXPECT_EQ(OpenStatus().code(), StatusCode::kPermissionDenied);
  }
  ExpectNothingSetAside();
}

TEST_F(RocksOpenTest, AReadOnlyDiskIsReportedAndLeftAlone) {
  MakeStore();
  filesystem_.FailWritesWith(EROFS);
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(refused).find(path()), std::string_view::npos) << refused;
  ExpectNothingSetAside();
}

TEST_F(RocksOpenTest, AFullDiskIsReportedAndLeftAlone) {
  MakeStore();
  filesystem_.FailWritesWith(ENOSPC);
  const absl::Status refused = OpenStatus();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(refused).find("free some space"), std::string_view::npos) << refused;
  ExpectNothingSetAside();
  filesystem_.FailWritesWith(0);
  Reopen();
  ExpectStored(made_);
}

}  // namespace
}  // namespace kiln
