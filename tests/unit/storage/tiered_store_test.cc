#include "storage/tiered_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "storage/quota_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/faulty_store.h"

namespace kiln {
namespace {

using absl::StatusCode;

class TieredStoreTest : public testing::Test {
 protected:
  explicit TieredStoreTest(uint64_t fast_bytes_max = limits::kMiB) {
    auto fast = std::make_unique<MemoryStore>(fast_bytes_max, clock_);
    auto slow = std::make_unique<MemoryStore>(limits::kMiB, clock_);
    fast_ = fast.get();
    slow_ = slow.get();
    store_ = std::make_unique<TieredStore>(
        std::move(fast), std::make_unique<FaultyStore>(std::move(slow), slow_faults_),
        [this](const std::vector<UseCount>& uses) {
          uses_.insert(uses_.end(), uses.begin(), uses.end());
        });
  }

  absl::Status Put(const MadeArtifact& made) {
    return store_->index().Put(context_, made.record, made.blobs);
  }
  static bool Holds(Store& store, const Digest& key) {
    const auto all = store.index().Scan({}, std::nullopt, 1000);
    for (const FoundArtifact& found : *all) {
      if (found.record->key == key) return true;
    }
    return false;
  }
  uint64_t SlowHits(const Digest& key) {
    const auto all = slow_->index().Scan({}, std::nullopt, 1000);
    for (const FoundArtifact& found : *all) {
      if (found.record->key == key) return found.usage.hits;
    }
    return 0;
  }

  FakeClock clock_;
  CallContext context_;
  Faults slow_faults_;
  std::unique_ptr<TieredStore> store_;
  MemoryStore* fast_;
  MemoryStore* slow_;
  std::vector<UseCount> uses_;  // that the store told of
};

TEST_F(TieredStoreTest, MissInFastHitInSlowIsPromoted) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(slow_->index().Put(context_, made.record, made.blobs).ok());
  ASSERT_TRUE(store_->index().Get(context_, made.record.key).ok());
  ASSERT_TRUE(store_->blobs().GetBlob(context_, made.blobs[1].digest()).ok());
  const int asked = slow_faults_.get_count();
  EXPECT_TRUE(store_->index().Get(context_, made.record.key).ok());
  EXPECT_TRUE(store_->blobs().GetBlob(context_, made.blobs[1].digest()).ok());
  EXPECT_EQ(slow_faults_.get_count(), asked);
}

TEST_F(TieredStoreTest, APutIsInBothTiersWithTheFinalBinaryOnTop) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  EXPECT_TRUE(Holds(*fast_, made.record.key));
  EXPECT_TRUE(Holds(*slow_, made.record.key));
  EXPECT_FALSE(fast_->blobs().GetBlob(context_, made.blobs[0].digest()).ok());
  EXPECT_TRUE(fast_->blobs().GetBlob(context_, made.blobs[1].digest()).ok());
}

TEST_F(TieredStoreTest, FailedPutInSlowIsReturnedAndLeavesNothingInFast) {
  slow_faults_.FailPuts(ResourceExhausted("disk full"));
  const MadeArtifact made = MakeArtifact("a");
  EXPECT_EQ(Put(made).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->index().Get(context_, made.record.key).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store_->blobs().GetBlob(context_, made.blobs[0].digest()).ok());
}

// With a memory that takes small artifacts only.
class TieredUnderSmallMemoryTest : public TieredStoreTest {
 protected:
  TieredUnderSmallMemoryTest() : TieredStoreTest(10'000) {}
};

TEST_F(TieredUnderSmallMemoryTest, ArtifactsThatFastRefusesAreServedBySlow) {
  const MadeArtifact made = MakeArtifact("large", 50'000);
  ASSERT_TRUE(Put(made).ok());
  EXPECT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_TRUE(store_->GetBlob(context_, made.blobs[1].digest()).ok());
  EXPECT_TRUE(store_->SetPinned(context_, made.record.key, true).ok());
  EXPECT_TRUE(store_->Scan(context_, std::nullopt, 1)->front().usage.pinned);
  EXPECT_TRUE(store_->Remove(context_, made.record.key).ok());
}

// A replacement that the fast tier does not take must not leave the old record there.
TEST_F(TieredUnderSmallMemoryTest, ReplacementThatFastRefusesHidesTheOldRecord) {
  const MadeArtifact old = MakeArtifact("old");
  MadeArtifact fresh = MakeArtifact("fresh", 50'000);
  fresh.record.key = old.record.key;
  ASSERT_TRUE(Put(old).ok());
  ASSERT_TRUE(Holds(*fast_, old.record.key));
  ASSERT_TRUE(Put(fresh).ok());
  const auto found = store_->Get(context_, old.record.key);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found->record, fresh.record);
}

TEST_F(TieredStoreTest, FailedLookUpInSlowIsAnErrorAndNoMiss) {
  slow_faults_.FailGets(Internal("io error"));
  EXPECT_EQ(store_->index().Get(context_, MadeKey("a")).status().code(), StatusCode::kInternal);
}

TEST_F(TieredStoreTest, TheFirstHitInMemoryIsToldAtOnceAndLaterOnesAfterAWhile) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_EQ(SlowHits(made.record.key), 1u);
  ASSERT_EQ(uses_.size(), 1u);
  EXPECT_EQ(uses_[0].key, made.record.key);
  clock_.Advance(limits::kPendingUsesAge);
  ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_EQ(SlowHits(made.record.key), 10u);
  ASSERT_EQ(uses_.size(), 2u);
  EXPECT_EQ(uses_[1].uses, 9u);
  EXPECT_EQ(uses_[1].last_use_unix_ms, clock_.UnixMillis());
}

TEST_F(TieredStoreTest, AHitInSlowIsNoHitInMemory) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(slow_->index().Put(context_, made.record, made.blobs).ok());
  ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_TRUE(uses_.empty());
  ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_EQ(uses_.size(), 1u);
}

TEST_F(TieredStoreTest, UsesOfWhatMemoryLostMeanwhileAreCountedAll) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  ASSERT_TRUE(fast_->Remove(context_, made.record.key).ok());
  ASSERT_TRUE(store_->Get(context_, made.record.key).ok());  // promoted, and counted by slow itself
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
  EXPECT_EQ(store_->Scan(context_, std::nullopt, 1)->front().usage.hits, 11u);
}

TEST_F(TieredStoreTest, UsesOfManyArtifactsAreToldBeforeTheyAreTooMany) {
  for (size_t i = 0; i < limits::kPendingUsesMax; ++i) {
    MadeArtifact made = MakeArtifact("a");
    made.record.key = MadeKey(std::to_string(i));
    ASSERT_TRUE(fast_->Put(context_, made.record, made.blobs).ok());
    ASSERT_TRUE(slow_->Put(context_, made.record, made.blobs).ok());
    ASSERT_TRUE(store_->Get(context_, made.record.key).ok());
    uses_.clear();
  }
  for (size_t i = 0; i < limits::kPendingUsesMax; ++i) {
    ASSERT_TRUE(uses_.empty()) << i;
    ASSERT_TRUE(store_->Get(context_, MadeKey(std::to_string(i))).ok());
  }
  EXPECT_EQ(uses_.size(), limits::kPendingUsesMax);
}

TEST_F(TieredStoreTest, RecordThatOnlyFastHoldsCanBeRemoved) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(slow_->index().Remove(context_, made.record.key).ok());
  EXPECT_TRUE(store_->index().Get(context_, made.record.key).ok());
  EXPECT_TRUE(store_->index().Remove(context_, made.record.key).ok());
  EXPECT_EQ(store_->index().Remove(context_, made.record.key).code(), StatusCode::kNotFound);
}

TEST_F(TieredStoreTest, PinsShowInListsOfWhatTheFastTierHolds) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(store_->SetPinned(context_, made.record.key, true).ok());
  ASSERT_TRUE(Holds(*fast_, made.record.key));
  EXPECT_TRUE(store_->Scan(context_, std::nullopt, 1)->front().usage.pinned);
}

TEST_F(TieredStoreTest, ListingShowsUsesThatTheFastTierAnswered) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(Put(made).ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(store_->index().Get(context_, made.record.key).ok());
  const auto all = store_->index().Scan(context_, std::nullopt, 10);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->front().usage.hits, 4u);
}

// memory over a quota over what tells of its changes, as the daemon has them.
class EvictionBeneathTest : public testing::Test {
 protected:
  EvictionBeneathTest() {
    auto notifying = std::make_unique<NotifyingStore>(
        std::make_unique<MemoryStore>(limits::kMiB, clock_), std::vector<ArtifactListener*>{});
    NotifyingStore& durable = *notifying;
    auto quota = std::make_unique<QuotaStore>(
        std::move(notifying), QuotaOptions{64 * limits::kKiB, 0, "/"}, OsFilesystem(), clock_);
    quota_ = quota.get();
    auto fast = std::make_unique<MemoryStore>(limits::kMiB, clock_);
    fast_ = fast.get();
    store_ = std::make_unique<TieredStore>(std::move(fast), std::move(quota));
    durable.AddListener(*store_);
  }

  std::vector<Digest> KeysOf(Store& store) {
    std::vector<Digest> keys;
    const auto all = store.index().Scan({}, std::nullopt, 1000);
    for (const FoundArtifact& found : *all) keys.push_back(found.record->key);
    return keys;
  }

  FakeClock clock_;
  std::unique_ptr<TieredStore> store_;
  QuotaStore* quota_;
  MemoryStore* fast_;
};

TEST_F(EvictionBeneathTest, EvictedArtifactIsNotServedFromMemory) {
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(store_->index().Put({}, made.record, made.blobs).ok());
  ASSERT_TRUE(store_->index().Get({}, made.record.key).ok());
  ASSERT_TRUE(quota_->EvictDownTo({}, 0).ok());
  EXPECT_EQ(store_->index().Get({}, made.record.key).status().code(), StatusCode::kNotFound);
  // A kernel that is compiled again is stored again.
  ASSERT_TRUE(store_->index().Put({}, made.record, made.blobs).ok());
  EXPECT_EQ(KeysOf(*quota_).size(), 1u);
}

TEST_F(EvictionBeneathTest, PutsThatEvictLeaveBothTiersTheSame) {
  for (int i = 0; i < 500; ++i) {
    const MadeArtifact made = MakeArtifact("artifact " + std::to_string(i));
    ASSERT_TRUE(store_->index().Put({}, made.record, made.blobs).ok()) << i;
  }
  const std::vector<Digest> kept = KeysOf(*quota_);
  EXPECT_LT(kept.size(), 500u) << "the quota is too large for this test";
  for (const Digest& key : KeysOf(*fast_)) {
    EXPECT_NE(std::find(kept.begin(), kept.end(), key), kept.end()) << key.Hex();
  }
}

TEST_F(EvictionBeneathTest, ConcurrentPutsGetsAndEvictionsLeaveNoEvictedArtifactInFast) {
  std::vector<MadeArtifact> made;
  for (int i = 0; i < 40; ++i) made.push_back(MakeArtifact("artifact " + std::to_string(i)));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 3; ++worker) {
    threads.emplace_back([&, worker] {
      for (int i = 0; i < 2000; ++i) {
        const MadeArtifact& one = made[static_cast<size_t>(i * (worker + 1)) % made.size()];
        if (worker == 0) (void)store_->index().Put({}, one.record, one.blobs);
        if (worker == 1) (void)store_->index().Get({}, one.record.key);
        if (worker == 2 && i % 20 == 0) (void)quota_->EvictDownTo({}, 4 * limits::kKiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Digest> kept = KeysOf(*quota_);
  for (const Digest& key : KeysOf(*fast_)) {
    EXPECT_NE(std::find(kept.begin(), kept.end(), key), kept.end()) << key.Hex();
  }
}

TEST_F(TieredStoreTest, DescribesItself) {
  EXPECT_EQ(store_->Describe(), "tiered(memory, memory)");
}

}  // namespace
}  // namespace kiln
