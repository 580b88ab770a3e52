#include "storage/user_quota.h"

#include <gmock/gmock.h>

#include "storage/memory_store.h"
#include "storage/user_cache_record.h"
#include "storage/user_cache_scan.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class UserQuotaTest : public testing::Test {
 protected:
  // Of `bytes` in all.
  static ArtifactRecord Record(uid_t uid, const std::string& key, uint64_t bytes) {
    ArtifactRecord record;
    record.key = UserCacheKey(uid, key);
    record.document = EncodeUserCacheRecord({uid, key, {}});
    record.stages = {
        {std::string(kUserCacheStage), Digest::Of(key), bytes - record.document.size()}};
    return record;
  }
  // As whoever puts does, a second after the one before.
  std::vector<Digest> Put(uid_t uid, const std::string& key, uint64_t bytes = 100) {
    clock_.Advance(seconds(1));
    const ArtifactRecord record = Record(uid, key, bytes);
    const auto room = ledger_.MakeRoom(uid, record.key, bytes);
    EXPECT_TRUE(room.ok()) << room.status();
    for (const Digest& each : (*room)->leaving()) ledger_.OnRemove(each);
    ledger_.OnPut(record, {});
    return (*room)->leaving();
  }

  FakeClock clock_;
  UserQuota ledger_{
      {.entries_per_user_max = 3, .entries_max = 5, .bytes_per_user_max = 1000, .bytes_max = 2000},
      clock_};
};

TEST_F(UserQuotaTest, CountsWhatIsPutReplacedAndRemoved) {
  Put(1, "a", 100);
  Put(1, "a", 300);
  Put(2, "a", 50);
  EXPECT_EQ(ledger_.Stats().users, 2u);
  EXPECT_EQ(ledger_.Stats().entries, 2u);
  EXPECT_EQ(ledger_.Stats().bytes, 350u);
  ledger_.OnRemove(UserCacheKey(1, "a"));
  ledger_.OnRemove(UserCacheKey(1, "a"));
  EXPECT_EQ(ledger_.Stats().users, 1u);
  EXPECT_EQ(ledger_.Stats().bytes, 50u);
}

TEST_F(UserQuotaTest, ArtifactsAreNoneOfItsBusiness) {
  const MadeArtifact made = MakeArtifact("add");
  ledger_.OnPut(made.record, made.blobs);
  ledger_.OnRemove(made.record.key);
  EXPECT_EQ(ledger_.Stats().entries, 0u);
}

TEST_F(UserQuotaTest, AUserWithTooManyLosesTheLeastRecentlyUsed) {
  EXPECT_THAT(Put(1, "a"), IsEmpty());
  EXPECT_THAT(Put(1, "b"), IsEmpty());
  EXPECT_THAT(Put(1, "c"), IsEmpty());
  clock_.Advance(seconds(1));
  ledger_.Touch(UserCacheKey(1, "a"));
  EXPECT_THAT(Put(1, "c"), IsEmpty());  // in its own place
  EXPECT_THAT(Put(1, "d"), ElementsAre(UserCacheKey(1, "b")));
  EXPECT_EQ(ledger_.Stats().entries, 3u);
}

TEST_F(UserQuotaTest, AUserWithTooMuchLosesNoMoreThanNeeded) {
  Put(1, "a", 400);
  Put(1, "b", 400);
  EXPECT_THAT(Put(1, "c", 200), IsEmpty());  // at the limit
  EXPECT_THAT(Put(1, "d", 201), ElementsAre(UserCacheKey(1, "a")));
}

TEST_F(UserQuotaTest, WhatAloneIsTooMuchIsRefusedAndCostsNothing) {
  Put(1, "a");
  const auto refused = ledger_.MakeRoom(1, UserCacheKey(1, "b"), 1001);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(ledger_.Stats().entries, 1u);
}

TEST_F(UserQuotaTest, WhatWasToLeaveAndDidNotCountsAgain) {
  for (const char* key : {"a", "b", "c"}) Put(1, key);
  {
    const auto room = ledger_.MakeRoom(1, UserCacheKey(1, "d"), 100);
    EXPECT_THAT((*room)->leaving(), ElementsAre(UserCacheKey(1, "a")));
    EXPECT_EQ(ledger_.Stats().entries, 3u);  // the room is one
    ledger_.Touch(UserCacheKey(1, "a"));
  }
  EXPECT_EQ(ledger_.Stats().entries, 3u);
  EXPECT_EQ(ledger_.Stats().bytes, 300u);
  EXPECT_THAT(Put(1, "d"), ElementsAre(UserCacheKey(1, "b")));
}

TEST_F(UserQuotaTest, WhatWasToBeReplacedAndWasNotCountsAgain) {
  Put(1, "a", 100);
  EXPECT_TRUE(ledger_.MakeRoom(1, UserCacheKey(1, "a"), 300).ok());
  EXPECT_EQ(ledger_.Stats().bytes, 100u);
}

TEST_F(UserQuotaTest, WhatIsNotStoredIsForgottenUnlessItIsPutAnew) {
  for (const bool is_put_anew : {false, true}) {
    for (const char* key : {"a", "b", "c"}) Put(1, key);
    const auto room = ledger_.MakeRoom(1, UserCacheKey(1, "d"), 900);
    ASSERT_THAT((*room)->leaving(), ElementsAre(UserCacheKey(1, "a"), UserCacheKey(1, "b")));
    if (is_put_anew) ledger_.OnPut(Record(1, "b", 100), {});
    for (const Digest& each : (*room)->leaving()) (*room)->Forget(each);
  }
  EXPECT_EQ(ledger_.Stats().entries, 2u);
  EXPECT_EQ(ledger_.Stats().bytes, 200u);
}

TEST_F(UserQuotaTest, RoomIsNobodyElsesUntilItGoes) {
  Put(1, "a", 100);
  auto first = ledger_.MakeRoom(2, UserCacheKey(2, "a"), 1000);
  const auto second = ledger_.MakeRoom(3, UserCacheKey(3, "a"), 1000);
  EXPECT_THAT((*first)->leaving(), IsEmpty());
  EXPECT_THAT((*second)->leaving(), ElementsAre(UserCacheKey(1, "a")));
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_.MakeRoom(4, UserCacheKey(4, "a"), 100).status()));
  first->reset();
  EXPECT_THAT(Put(4, "a", 100), IsEmpty());
}

TEST_F(UserQuotaTest, NothingIsAskedToLeaveTwice) {
  for (const char* key : {"a", "b", "c"}) Put(1, key);
  Put(2, "a");
  Put(2, "b");
  const auto first = ledger_.MakeRoom(3, UserCacheKey(3, "a"), 100);
  const auto second = ledger_.MakeRoom(4, UserCacheKey(4, "a"), 100);
  EXPECT_THAT((*first)->leaving(), ElementsAre(UserCacheKey(1, "a")));
  EXPECT_THAT((*second)->leaving(), ElementsAre(UserCacheKey(1, "b")));
}

TEST_F(UserQuotaTest, WhereAllHaveTooManyWhoeverHasMostLoses) {
  for (const char* key : {"a", "b", "c"}) Put(1, key);
  Put(2, "a");
  Put(2, "b");
  EXPECT_THAT(Put(3, "a"), ElementsAre(UserCacheKey(1, "a")));
}

TEST_F(UserQuotaTest, WhereAllHaveTooMuchWhoeverHasMostLoses) {
  Put(1, "a", 900);
  Put(2, "a", 500);
  Put(2, "b", 450);
  EXPECT_THAT(Put(3, "a", 200), ElementsAre(UserCacheKey(2, "a")));
}

TEST_F(UserQuotaTest, HearsOfWhatWasThereBeforeItWhenSomebodyReadsTheIndex) {
  MemoryStore store(limits::kGiB, clock_);
  const MadeArtifact artifact = MakeArtifact("add");
  ASSERT_TRUE(store.index().Put({}, artifact.record, artifact.blobs).ok());
  for (const char* key : {"old", "new"}) {
    clock_.Advance(seconds(1));
    ArtifactRecord record = Record(1, key, 100);
    record.stages.clear();
    ASSERT_TRUE(store.index().Put({}, record, {}).ok());
  }
  Put(1, "now");
  UserCacheScan stock(store.index(), ledger_);
  EXPECT_EQ(stock.Scan({}, std::nullopt, 10)->size(), 3u);
  EXPECT_EQ(stock.Scan({}, std::nullopt, 10)->size(), 3u);  // known already
  EXPECT_EQ(ledger_.Stats().entries, 3u);
  EXPECT_THAT(Put(1, "next"), ElementsAre(UserCacheKey(1, "old")));
}

}  // namespace
}  // namespace kiln
