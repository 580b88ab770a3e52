#include "storage/user_quota.h"

#include <gmock/gmock.h>

#include "storage/memory_store.h"
#include "storage/user_cache_record.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class UserQuotaTest : public testing::Test {
 protected:
  // An entry of `bytes` in all.
  static ArtifactRecord Record(uid_t uid, const std::string& key, uint64_t bytes) {
    ArtifactRecord record;
    record.key = UserCacheKey(uid, key);
    record.document = EncodeUserCacheRecord({uid, key, {}});
    record.stages = {
        {std::string(kUserCacheStage), Digest::Of(key), bytes - record.document.size()}};
    return record;
  }
  // Puts as UserCache does, a second after the put before. Returns the evicted keys.
  std::vector<Digest> Put(uid_t uid, const std::string& key, uint64_t bytes = 100) {
    clock_.Advance(seconds(1));
    const ArtifactRecord record = Record(uid, key, bytes);
    std::vector<Digest> evicted;
    while (const auto oldest = quota_.NextToEvict(uid, record.key, bytes)) {
      evicted.push_back(*oldest);
      quota_.OnRemove(*oldest);
    }
    quota_.OnPut(record, {});
    return evicted;
  }

  FakeClock clock_;
  UserQuota quota_{
      {.entries_per_user_max = 3, .entries_max = 5, .bytes_per_user_max = 1000, .bytes_max = 2000},
      clock_};
};

TEST_F(UserQuotaTest, CountsEntriesThatArePutReplacedAndRemoved) {
  Put(1, "a", 100);
  Put(1, "a", 300);
  Put(2, "a", 50);
  EXPECT_EQ(quota_.Stats().users, 2u);
  EXPECT_EQ(quota_.Stats().entries, 2u);
  EXPECT_EQ(quota_.Stats().bytes, 350u);
  quota_.OnRemove(UserCacheKey(1, "a"));
  quota_.OnRemove(UserCacheKey(1, "a"));
  EXPECT_EQ(quota_.Stats().users, 1u);
  EXPECT_EQ(quota_.Stats().bytes, 50u);
}

TEST_F(UserQuotaTest, IgnoresArtifacts) {
  const MadeArtifact made = MakeArtifact("add");
  quota_.OnPut(made.record, made.blobs);
  quota_.OnRemove(made.record.key);
  EXPECT_EQ(quota_.Stats().entries, 0u);
}

TEST_F(UserQuotaTest, UserWithTooManyEntriesLosesTheLeastRecentlyUsed) {
  EXPECT_THAT(Put(1, "a"), IsEmpty());
  EXPECT_THAT(Put(1, "b"), IsEmpty());
  EXPECT_THAT(Put(1, "c"), IsEmpty());
  clock_.Advance(seconds(1));
  quota_.Touch(UserCacheKey(1, "a"));
  EXPECT_THAT(Put(1, "c"), IsEmpty());  // in its own place
  EXPECT_THAT(Put(1, "d"), ElementsAre(UserCacheKey(1, "b")));
  EXPECT_EQ(quota_.Stats().entries, 3u);
}

TEST_F(UserQuotaTest, UserWithTooManyBytesLosesNoMoreThanNeeded) {
  Put(1, "a", 400);
  Put(1, "b", 400);
  EXPECT_THAT(Put(1, "c", 200), IsEmpty());  // at the limit
  EXPECT_THAT(Put(1, "d", 201), ElementsAre(UserCacheKey(1, "a")));
}

TEST_F(UserQuotaTest, AnEntryThatExceedsALimitByItselfIsRefused) {
  EXPECT_TRUE(quota_.CheckFits(1000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(quota_.CheckFits(1001)));
}

TEST_F(UserQuotaTest, TooManyEntriesInAllEvictFromTheUserWithMostEntries) {
  for (const char* key : {"a", "b", "c"}) Put(1, key);
  Put(2, "a");
  Put(2, "b");
  EXPECT_THAT(Put(3, "a"), ElementsAre(UserCacheKey(1, "a")));
}

TEST_F(UserQuotaTest, TooManyBytesInAllEvictFromTheUserWithMostBytes) {
  Put(1, "a", 900);
  Put(2, "a", 500);
  Put(2, "b", 450);
  EXPECT_THAT(Put(3, "a", 200), ElementsAre(UserCacheKey(2, "a")));
}

TEST_F(UserQuotaTest, TakesStockOfEntriesStoredBefore) {
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
  const auto stored = store.Scan({}, std::nullopt, 10);
  ASSERT_EQ(stored->size(), 3u);
  for (const FoundArtifact& found : *stored) quota_.TakeStock(found);
  for (const FoundArtifact& found : *stored) quota_.TakeStock(found);  // known already
  EXPECT_EQ(quota_.Stats().entries, 3u);
  EXPECT_THAT(Put(1, "next"), ElementsAre(UserCacheKey(1, "old")));
}

}  // namespace
}  // namespace kiln
