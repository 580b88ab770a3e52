#include "storage/rocks/rocks_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/limits.h"
#include "storage/quota_store.h"
#include "storage/rocks/record_codec.h"
#include "storage/rocks/stored_value.h"
#include "tests/testing/full_disk_env.h"
#include "tests/unit/storage/rocks/rocks_fixture.h"

namespace kiln {
namespace {

using absl::StatusCode;

class RocksStoreTest : public RocksFixture {
 protected:
  RocksStoreTest() { Reopen(); }
};

uint64_t DirectoryBytes(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path, gone)) {
    const uint64_t size = entry.file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

TEST_F(RocksStoreTest, EverythingIsThereAfterReopening) {
  const MadeArtifact made = MakeArtifact("kept");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(store().index().SetPinned(context_, made.record.key, true).ok());
  for (int i = 0; i < 5; ++i) ASSERT_EQ(RecordCode(made.record.key), StatusCode::kOk);
  const StoreStats before = store().Stats();
  Reopen();
  ExpectStored(made);
  EXPECT_EQ(store().Stats().artifacts, before.artifacts);
  EXPECT_EQ(store().Stats().stored_bytes, before.stored_bytes);
  const auto all = store().index().Scan(context_, std::nullopt, 1);
  EXPECT_TRUE(all->front().usage.pinned);
  EXPECT_EQ(all->front().usage.hits, 6u);
  EXPECT_EQ(store().index().Get(context_, made.record.key)->tier, Tier::kDisk);
}

TEST_F(RocksStoreTest, UsesAreWrittenDownAfterAWhileWithoutClosing) {
  const MadeArtifact made = MakeArtifact("used");
  ASSERT_TRUE(Put(made).ok());
  clock_.Advance(limits::kPendingUsesAge);
  ASSERT_EQ(RecordCode(made.record.key), StatusCode::kOk);
  rocks().WaitUntilIdle();
  // As the death of the process would leave it: the store is not asked to close.
  std::filesystem::copy(path(), directory_.File("as it is"));
  Close();
  std::filesystem::remove_all(path());
  std::filesystem::rename(directory_.File("as it is"), path());
  Reopen();
  EXPECT_EQ(store().index().Scan(context_, std::nullopt, 1)->front().usage.hits, 1u);
}

TEST_F(RocksStoreTest, APutThatLacksABlobChangesNothing) {
  const MadeArtifact made = MakeArtifact("incomplete");
  const std::vector<Blob> only_one = {made.blobs[0]};
  const absl::Status refused = store().index().Put(context_, made.record, only_one);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kNotFound);
  EXPECT_EQ(BlobCode(made.blobs[0]), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().stored_bytes, 0u);
}

TEST_F(RocksStoreTest, ABlobOfAnEarlierArtifactNeedNotComeAgain) {
  const MadeArtifact first = MakeArtifact("first");
  MadeArtifact second = first;
  second.record.key = MadeKey("second");
  ASSERT_TRUE(Put(first).ok());
  ASSERT_TRUE(store().Put(context_, second.record, {}).ok());
  ASSERT_TRUE(store().Remove(context_, first.record.key).ok());
  ExpectStored(second);
}

TEST_F(RocksStoreTest, AHitBringsASmallBinaryAlong) {
  const MadeArtifact small = MakeArtifact("small", kInlinedBinaryBytesMax);
  const MadeArtifact large = MakeArtifact("large", kInlinedBinaryBytesMax + 1);
  for (const MadeArtifact& made : {small, large}) ASSERT_TRUE(Put(made).ok());
  const auto found = store().Get(context_, small.record.key);
  ASSERT_TRUE(found.ok() && found->binary);
  EXPECT_EQ(found->binary->digest(), small.blobs.back().digest());
  EXPECT_FALSE(store().Get(context_, large.record.key)->binary);
  ExpectStored(small);
  ExpectStored(large);
}

TEST_F(RocksStoreTest, ASmallBinaryCountsWithItsRecord) {
  const MadeArtifact made = MakeArtifact("small");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(Put(made).ok());
  EXPECT_GT(store().Stats().stored_bytes, 2 * made.blobs.back().size_bytes());
  ASSERT_TRUE(store().Remove(context_, made.record.key).ok());
  EXPECT_EQ(store().Stats().stored_bytes, 0u);
}

TEST_F(RocksStoreTest, ARecordOfAnEarlierVersionIsAHitWithoutItsBinary) {
  const MadeArtifact made = MakeArtifact("old");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    std::string old = *EncodeRecord(made.record);
    old.resize(old.size() - sizeof(uint32_t) - sizeof(uint64_t));  // no binary, the checksum
    old[0] = 2;
    ByteWriter writer;
    writer.Raw(old);
    writer.Number(Checksum64(old));
    batch.Put(RocksFamily::kArtifacts, made.record.key.Bytes(), CompressValue(writer.bytes()));
  });
  const auto found = store().Get(context_, made.record.key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->binary);
  ExpectStored(made);
}

TEST_F(RocksStoreTest, ARecordWithAnotherBinaryIsDataLossOnceThenAMiss) {
  const MadeArtifact made = MakeArtifact("damaged");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kArtifacts, made.record.key.Bytes(),
              CompressValue(*EncodeRecord(made.record, "another binary")));
  });
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kDataLoss);
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().quarantined, 1u);
}

TEST_F(RocksStoreTest, ABlobThatNoStageNamesIsNotStored) {
  MadeArtifact made = MakeArtifact("generous");
  made.blobs.push_back(Blob::FromBytes("another"));
  ASSERT_TRUE(Put(made).ok());
  EXPECT_EQ(BlobCode(made.blobs.back()), StatusCode::kNotFound);
}

TEST_F(RocksStoreTest, ADamagedBlobIsDataLossOnceThenAMissAndHealsWithAPut) {
  const MadeArtifact made = MakeArtifact("damaged");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kBlobs, made.blobs[1].digest().Bytes(), "\x01garbage");
  });
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kDataLoss);
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().quarantined, 1u);
  const Digest digests[] = {made.blobs[1].digest()};
  EXPECT_EQ(store().blobs().FindMissing(context_, digests)->size(), 1u);

  ASSERT_TRUE(Put(made).ok());
  ExpectStored(made);
  ASSERT_TRUE(store().index().Remove(context_, made.record.key).ok());
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kNotFound);
}

TEST_F(RocksStoreTest, AnotherBlobsBytesAreNeverServed) {
  const MadeArtifact made = MakeArtifact("swapped");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kBlobs, made.blobs[1].digest().Bytes(), CompressValue("other bytes"));
  });
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kDataLoss);
}

TEST_F(RocksStoreTest, ReferencedBlobThatIsMissingIsWrittenAgain) {
  const MadeArtifact made = MakeArtifact("vanished");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Delete(RocksFamily::kBlobs, made.blobs[1].digest().Bytes());
  });
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kNotFound);
  ASSERT_TRUE(Put(made).ok());
  ExpectStored(made);
}

TEST_F(RocksStoreTest, ADamagedRecordIsDataLossOnceThenAMissAndItsBlobsAreCollected) {
  const MadeArtifact made = MakeArtifact("damaged");
  const MadeArtifact whole = MakeArtifact("whole");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(Put(whole).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kArtifacts, made.record.key.Bytes(), CompressValue("no record"));
  });
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kDataLoss);
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().artifacts, 1u);

  const auto collected = store().CollectUnreferencedBlobs(context_);
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(*collected, 2u);
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kNotFound);
  ExpectStored(whole);
  EXPECT_EQ(*store().CollectUnreferencedBlobs(context_), 0u);
}

TEST_F(RocksStoreTest, ScanStepsOverADamagedRecord) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Put(MakeArtifact(name)).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kArtifacts, MadeKey("b").Bytes(), "");
  });
  EXPECT_EQ(store().index().Scan(context_, std::nullopt, 10)->size(), 2u);
  EXPECT_EQ(store().Stats().quarantined, 1u);
  EXPECT_EQ(RecordCode(MadeKey("b")), StatusCode::kNotFound);
}

TEST_F(RocksStoreTest, ADamagedRecordCanBeReplacedAndRemoved) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  const auto damage = [&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kArtifacts, made.record.key.Bytes(), "xx");
  };
  Tamper(damage);
  ASSERT_TRUE(Put(made).ok());
  ExpectStored(made);
  EXPECT_EQ(store().Stats().artifacts, 1u);
  Tamper(damage);
  EXPECT_EQ(store().index().SetPinned(context_, made.record.key, true).code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(store().index().Remove(context_, made.record.key).code(), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().artifacts, 0u);
}

TEST_F(RocksStoreTest, LostTotalsAreCountedAnew) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Put(MakeArtifact(name)).ok());
  const StoreStats before = store().Stats();
  Tamper([](RocksDatabase::Batch& batch) { batch.Put(RocksFamily::kMeta, kTotalsRow, "?"); });
  EXPECT_EQ(store().Stats().artifacts, before.artifacts);
  EXPECT_EQ(store().Stats().stored_bytes, before.stored_bytes);
}

TEST_F(RocksStoreTest, TheQuarantineIsBounded) {
  const size_t count = limits::kQuarantinedMax + 6;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(Put(MakeArtifact(std::to_string(i), 10)).ok());
  }
  Tamper([&](RocksDatabase::Batch& batch) {
    for (size_t i = 0; i < count; ++i) {
      batch.Put(RocksFamily::kArtifacts, MadeKey(std::to_string(i)).Bytes(), "damage");
    }
  });
  for (size_t i = 0; i < count; ++i) {
    clock_.Advance(std::chrono::seconds(1));
    EXPECT_EQ(RecordCode(MadeKey(std::to_string(i))), StatusCode::kDataLoss);
  }
  EXPECT_EQ(store().Stats().quarantined, count);
  Close();
  auto database = RocksDatabase::Open(path(), kExpectedBytes);
  ASSERT_TRUE(database.ok());
  size_t rows = 0;
  const auto walk = (*database)->Iterate(RocksFamily::kQuarantine);
  for (walk->SeekToFirst(); walk->Valid(); walk->Next()) ++rows;
  EXPECT_EQ(rows, limits::kQuarantinedMax);
}

TEST_F(RocksStoreTest, UsagesOfVersionFourHaveNoNameAndKeepTheRest) {
  const MadeArtifact made = MakeArtifact("earlier");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    std::string row = EncodeUsage({.hits = 3, .pinned = true, .uid = 7, .job = "train"});
    // No name, no time, and not whether somebody waited.
    row.resize(row.size() - sizeof(uint32_t) - sizeof(int64_t) - sizeof(uint8_t));
    batch.Put(RocksFamily::kAccess, made.record.key.Bytes(), row);
  });
  const auto usages = store().index().ScanUsages(context_, std::nullopt, 10);
  ASSERT_TRUE(usages.ok() && usages->size() == 1);
  const ArtifactUsage& usage = usages->front().usage;
  EXPECT_FALSE(usage.HasName());
  EXPECT_EQ(usage.hits, 3u);
  EXPECT_TRUE(usage.pinned);
  EXPECT_EQ(usage.job, "train");
}

TEST_F(RocksStoreTest, UsagesOfVersionSixAreOfWhatSomebodyWaitedFor) {
  const ArtifactUsage usage = {
      .hits = 3, .uid = 7, .job = "train", .name = "k", .created_unix_ms = 5, .is_ahead = true};
  std::string row = EncodeUsage(usage);
  EXPECT_EQ(DecodeUsage(row), usage);
  row.pop_back();
  ArtifactUsage earlier = usage;
  earlier.is_ahead = false;
  EXPECT_EQ(DecodeUsage(row), earlier);
}

TEST_F(RocksStoreTest, AnArtifactWhoseUsageIsDamagedIsScannedWithoutUses) {
  const MadeArtifact made = MakeArtifact("damaged");
  ASSERT_TRUE(Put(made).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kAccess, made.record.key.Bytes(), "no usage");
  });
  const auto usages = store().index().ScanUsages(context_, std::nullopt, 10);
  ASSERT_TRUE(usages.ok() && usages->size() == 1);
  EXPECT_EQ(usages->front().key, made.record.key);
  EXPECT_FALSE(usages->front().usage.HasName());
  EXPECT_EQ(usages->front().usage.hits, 0u);
}

TEST_F(RocksStoreTest, RecordsAndBlobsBeyondTheLimitsAreRefused) {
  MadeArtifact made = MakeArtifact("large");
  made.record.document.assign(limits::kRecordBytesMax, 'd');
  EXPECT_EQ(Put(made).code(), StatusCode::kInvalidArgument);
}

// The limit is on what is stored; what its files occupy must follow, garbage, log and all.
TEST_F(RocksStoreTest, FilesStayNearTheLimitOverManyPuts) {
  constexpr uint64_t kLimit = 16 * limits::kMiB;
  FullDiskEnv disk;
  Close();
  auto opened =
      OpenRocksStore({.path = path(), .expected_bytes = kLimit, .env = &disk}, filesystem_, clock_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  auto& rocks = dynamic_cast<RocksStore&>(*opened->store);
  QuotaOptions quota;
  quota.bytes_max = kLimit;
  quota.disk_path = path();
  QuotaStore limited(std::move(opened->store), quota, filesystem_, clock_);
  uint64_t largest = 0;
  for (int i = 0; i < 400; ++i) {
    const MadeArtifact made = MakeArtifact(std::to_string(i), 200'000);
    ASSERT_TRUE(limited.index().Put(context_, made.record, made.blobs).ok());
    largest = std::max(largest, DirectoryBytes(path()));
    // The second half is one burst, on a disk that rewrites as slowly as puts come.
    if (i == 200) disk.SetBlobSpeed(40 * limits::kMiB);
    if (i < 200 && i % 20 == 0) rocks.WaitUntilIdle();
  }
  disk.SetBlobSpeed(0);
  rocks.WaitUntilIdle();
  EXPECT_LE(limited.Stats().stored_bytes, kLimit);
  EXPECT_LE(DirectoryBytes(path()), kLimit * 3 / 2);
  EXPECT_LE(largest, kLimit * 9 / 5);
  RecordProperty("largest_bytes", static_cast<int64_t>(largest));
}

}  // namespace
}  // namespace kiln
