#include "storage/quota_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_filesystem.h"

namespace kiln {
namespace {

using absl::StatusCode;

constexpr uint64_t kLimit = 200'000;

class QuotaStoreTest : public testing::Test {
 protected:
  QuotaStoreTest() {
    QuotaOptions options;
    options.bytes_max = kLimit;
    options.free_disk_bytes_min = 10 * limits::kMiB;
    options.disk_path = "/";
    options.is_leased = [this](const Digest& key) { return leased_.contains(key); };
    store_ = std::make_unique<QuotaStore>(std::make_unique<MemoryStore>(limits::kGiB, clock_),
                                          options, filesystem_, clock_);
  }

  absl::Status Put(const MadeArtifact& made) {
    return store_->index().Put(context_, made.record, made.blobs);
  }
  absl::Status Put(std::string_view name, size_t size_bytes = 10'000) {
    return Put(MakeArtifact(name, size_bytes));
  }
  bool Has(std::string_view name) {
    const auto all = store_->index().Scan(context_, std::nullopt, 1000);
    for (const FoundArtifact& found : *all) {
      if (found.record->key == MadeKey(name)) return true;
    }
    return false;
  }

  FakeClock clock_;
  FakeFilesystem filesystem_;
  CallContext context_;
  std::set<Digest> leased_;
  std::unique_ptr<QuotaStore> store_;
};

TEST_F(QuotaStoreTest, StaysWithinItsLimitOverManyPuts) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
    ASSERT_LE(store_->Stats().stored_bytes, kLimit);
  }
  EXPECT_GT(store_->Stats().artifacts, 10u);
  EXPECT_GT(store_->Stats().evicted, 50u);
  EXPECT_EQ(store_->Stats().stored_bytes_max, kLimit);
}

TEST_F(QuotaStoreTest, EvictsCheapIdleArtifactsFirst) {
  MadeArtifact expensive = MakeArtifact("expensive", 10'000);
  expensive.record.compile_micros = 60'000'000;
  ASSERT_TRUE(Put(expensive).ok());
  ASSERT_TRUE(Put("used").ok());
  const UseCount uses[] = {{MadeKey("used"), 500, clock_.UnixMillis()}};
  store_->CountUses(uses);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
  EXPECT_TRUE(Has("expensive"));
  EXPECT_TRUE(Has("used"));
}

TEST_F(QuotaStoreTest, PinnedArtifactsAreNeverEvicted) {
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("pinned {}", i);
    ASSERT_TRUE(Put(name).ok());
    ASSERT_TRUE(store_->index().SetPinned(context_, MadeKey(name), true).ok());
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Has(fmt::format("pinned {}", i)));
}

TEST_F(QuotaStoreTest, LeasedArtifactsStayUntilTheirLeaseEnds) {
  leased_ = {MadeKey("leased 0"), MadeKey("leased 1")};
  for (const char* name : {"leased 0", "leased 1"}) ASSERT_TRUE(Put(name).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
  EXPECT_TRUE(Has("leased 0") && Has("leased 1"));
  leased_.clear();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Put(fmt::format("later {}", i)).ok());
  EXPECT_FALSE(Has("leased 0") || Has("leased 1"));
}

TEST_F(QuotaStoreTest, AnOperatorsEvictionTakesLeasedArtifactsLast) {
  leased_ = {MadeKey("leased")};
  ASSERT_TRUE(Put("leased").ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
  ASSERT_TRUE(store_->EvictDownTo(context_, 15'000).ok());
  EXPECT_EQ(store_->Stats().artifacts, 1u);
  EXPECT_TRUE(Has("leased"));
  const auto result = store_->EvictDownTo(context_, 0);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->evicted, 1u);
  EXPECT_EQ(store_->Stats().artifacts, 0u);
}

TEST_F(QuotaStoreTest, PutIsRefusedWhereTheRestIsLeased) {
  leased_ = {MadeKey("leased")};
  ASSERT_TRUE(Put("leased", 180'000).ok());
  const absl::Status refused = Put("another", 50'000);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(refused).find("kiln evict --to"), std::string_view::npos) << refused;
  EXPECT_TRUE(Has("leased"));
}

TEST_F(QuotaStoreTest, PutIsRefusedWhereEverythingIsPinned) {
  ASSERT_TRUE(Put("pinned", 180'000).ok());
  ASSERT_TRUE(store_->index().SetPinned(context_, MadeKey("pinned"), true).ok());
  const absl::Status refused = Put("another", 50'000);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(refused).find("pinned"), std::string_view::npos) << refused;
  EXPECT_TRUE(Has("pinned"));
}

TEST_F(QuotaStoreTest, AnArtifactAboveTheLimitIsRefusedAndEvictsNothing) {
  ASSERT_TRUE(Put("here").ok());
  EXPECT_EQ(Put("huge", kLimit + 1).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Has("here"));
}

TEST_F(QuotaStoreTest, RefusesPutsAndServesGetsBelowTheDiskFloor) {
  ASSERT_TRUE(Put("before").ok());
  filesystem_.SetFreeBytes(9 * limits::kMiB);
  EXPECT_EQ(Put("during").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(store_->index().Get(context_, MadeKey("before")).ok());
  EXPECT_NE(store_->Stats().degraded, "");

  filesystem_.SetFreeBytes(10 * limits::kMiB);
  EXPECT_EQ(store_->Stats().degraded, "");
  EXPECT_TRUE(Put("after").ok());
}

TEST_F(QuotaStoreTest, EvictsDownToWhatItIsTold) {
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Put(fmt::format("kernel {}", i)).ok());
  const uint64_t before = store_->Stats().stored_bytes;
  const auto result = store_->EvictDownTo(context_, 50'000);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(store_->Stats().stored_bytes, 50'000u);
  EXPECT_EQ(result->freed_bytes, before - store_->Stats().stored_bytes);
  EXPECT_EQ(result->evicted, 15 - store_->Stats().artifacts);
  ASSERT_TRUE(store_->EvictDownTo(context_, 0).ok());
  EXPECT_EQ(store_->Stats().artifacts, 0u);
}

}  // namespace
}  // namespace kiln
