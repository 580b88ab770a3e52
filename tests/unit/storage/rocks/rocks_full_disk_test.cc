// A disk that fills up and empties again, under a store at work.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "storage/base/limits.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_filesystem.h"
#include "tests/testing/full_disk_env.h"
#include "tests/testing/pause.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using absl::StatusCode;

class RocksFullDiskTest : public testing::Test {
 protected:
  static constexpr uint64_t kExpectedBytes = 16 * limits::kMiB;

  RocksFullDiskTest() {
    auto database = RocksDatabase::Open(directory_.File("store"), kExpectedBytes, &disk_);
    EXPECT_TRUE(database.ok()) << database.status();
    database_ = database->get();
    auto store = RocksStore::Load(*std::move(database), directory_.File("store"), kExpectedBytes,
                                  filesystem_, clock_);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  absl::Status Put(std::string_view name, size_t size_bytes = 10'000) {
    const MadeArtifact made = MakeArtifact(name, size_bytes);
    return store_->index().Put(context_, made.record, made.blobs);
  }
  void ExpectStored(std::string_view name, size_t size_bytes = 10'000) {
    const MadeArtifact made = MakeArtifact(name, size_bytes);
    const auto found = store_->index().Get(context_, made.record.key);
    ASSERT_TRUE(found.ok()) << found.status();
    for (const Blob& blob : made.blobs) {
      EXPECT_TRUE(store_->blobs().GetBlob(context_, blob.digest()).ok());
    }
  }
  void ExpectRecovers() {
    disk_.SetFull(false);
    while (!store_->Stats().degraded.empty()) Pause();
    const absl::Status status = Put("after");
    ASSERT_TRUE(status.ok()) << status;
    ExpectStored("after");
  }

  FakeClock clock_;
  FakeFilesystem filesystem_;
  CallContext context_;
  TempDirectory directory_;
  FullDiskEnv disk_;
  const RocksDatabase* database_ = nullptr;
  std::unique_ptr<RocksStore> store_;
};

TEST_F(RocksFullDiskTest, PutsAreRefusedGetsGoOnAndItRecoversByItself) {
  ASSERT_TRUE(Put("before").ok());
  disk_.SetFull(true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Put("during").code(), StatusCode::kResourceExhausted);
    EXPECT_NE(store_->Stats().degraded.find("full"), std::string::npos);
    ExpectStored("before");
  }
  EXPECT_EQ(store_->index().Get(context_, MadeKey("during")).status().code(),
            StatusCode::kNotFound);
  ExpectRecovers();
  ExpectStored("before");
}

// It is the background flush that fails first when the log still fits.
TEST_F(RocksFullDiskTest, FillingUpInTheMiddleOfManyPutsLosesNothingAcknowledged) {
  int acknowledged = 0;
  for (; acknowledged < 30; ++acknowledged) {
    ASSERT_TRUE(Put(std::to_string(acknowledged), 100'000).ok());
  }
  disk_.SetFull(true);
  const absl::Status refused = Put("during", 100'000);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  ExpectRecovers();
  for (int i = 0; i < acknowledged; ++i) ExpectStored(std::to_string(i), 100'000);
}

// With nothing in memory to flush, RocksDB recovers without a new log, and its next write to the
// log that failed ends the process.
TEST(RocksDatabaseTest, AFailedFirstWriteOfALogDoesNotBreakTheNext) {
  const TempDirectory directory;
  FullDiskEnv disk;
  const auto opened = RocksDatabase::Open(directory.File("store"), limits::kMiB, &disk);
  ASSERT_TRUE(opened.ok()) << opened.status();
  RocksDatabase& database = **opened;
  RocksDatabase::Batch batch(database);
  batch.Put(RocksFamily::kBlobs, "key", "value");
  disk.FailOneAppend();
  EXPECT_EQ(database.Write(batch).code(), StatusCode::kResourceExhausted);
  while (!database.Write(batch).ok()) Pause();
  EXPECT_EQ(database.Degraded(), "");
}

}  // namespace
}  // namespace kiln
