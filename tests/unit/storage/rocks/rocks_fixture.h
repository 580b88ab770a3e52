// A RocksDB store in a directory of its own, and what its tests do to it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/limits.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_open.h"
#include "storage/rocks/rocks_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_filesystem.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

class RocksFixture : public testing::Test {
 protected:
  static constexpr uint64_t kExpectedBytes = 32 * limits::kMiB;

  std::string path() const { return directory_.File("store"); }
  RocksStoreOptions options() const {
    return {.path = path(),
            .expected_bytes = kExpectedBytes,
            .open_time_max = limits::kStoreOpenTime,
            .retry_interval = std::chrono::milliseconds(1)};
  }

  // Closes what is open, and opens it again.
  void Reopen() {
    store_.reset();
    auto opened = OpenRocksStore(options(), filesystem_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = std::move(opened->store);
    report_ = opened->report;
  }
  void Close() { store_.reset(); }
  Store& store() { return *store_; }
  RocksStore& rocks() { return dynamic_cast<RocksStore&>(*store_); }

  // Changes rows behind the store's back. Reopens it.
  template <typename Change>
  void Tamper(Change change) {
    Close();
    {
      auto database = RocksDatabase::Open(path(), kExpectedBytes);
      ASSERT_TRUE(database.ok()) << database.status();
      RocksDatabase::Batch batch(**database);
      change(batch);
      ASSERT_TRUE((*database)->Write(batch).ok());
    }
    Reopen();
  }

  absl::Status Put(const MadeArtifact& made) {
    return store().index().Put(context_, made.record, made.blobs);
  }
  absl::StatusCode BlobCode(const Blob& blob) {
    return store().blobs().GetBlob(context_, blob.digest()).status().code();
  }
  absl::StatusCode RecordCode(const Digest& key) {
    return store().index().Get(context_, key).status().code();
  }
  void ExpectStored(const MadeArtifact& made) {
    const auto found = store().index().Get(context_, made.record.key);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found->record, made.record);
    for (const Blob& blob : made.blobs) EXPECT_EQ(BlobCode(blob), absl::StatusCode::kOk);
  }

  FakeClock clock_;
  FakeFilesystem filesystem_;
  CallContext context_;
  TempDirectory directory_;
  std::unique_ptr<Store> store_;
  StoreOpenReport report_;
};

}  // namespace kiln
