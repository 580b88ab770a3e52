// HotDirectory::Rebuild and PublishFrom.
#include <gmock/gmock.h>

#include <chrono>

#include "storage/memory_store.h"
#include "storage/user_cache_record.h"
#include "tests/unit/storage/hot/hot_directory_fixture.h"

namespace kiln {
namespace {

constexpr uint64_t kRoomy = 64 * limits::kMiB;
const std::function<void(const FoundArtifact&)> kIgnoreRecords = [](const FoundArtifact&) {};

class HotRebuildTest : public HotDirectoryFixture {
 protected:
  // Into the store only, a minute after the one before.
  MadeArtifact Store(std::string_view name, size_t size_bytes = 1000) {
    clock_.Advance(std::chrono::minutes(1));
    MadeArtifact made = MakeArtifact(name, size_bytes);
    EXPECT_TRUE(store_.index().Put(context_, made.record, made.blobs).ok());
    return made;
  }
  void Rebuild() {
    const absl::Status status = hot().Rebuild(
        store_, store_, [] { return false; }, [this](const FoundArtifact&) { ++found_; });
    EXPECT_TRUE(status.ok()) << status;
    ExpectBooksBalance();
  }

  int found_ = 0;  // records that Rebuild reported
  CallContext context_;
  MemoryStore store_{kRoomy, clock_};
};

TEST_F(HotRebuildTest, AnEmptyStoreGivesAnEmptyDirectory) {
  Rebuild();
  EXPECT_EQ(hot().Stats().files, 0u);
}

TEST_F(HotRebuildTest, EverythingIsPublishedWhereItFits) {
  const MadeArtifact a = Store("a"), b = Store("b"), c = Store("c");
  Rebuild();
  ExpectPublished(a);
  ExpectPublished(b);
  ExpectPublished(c);
}

TEST_F(HotRebuildTest, UserCacheEntriesArePublishedForTheirUser) {
  const MadeArtifact own = MakeOwn(geteuid());
  ASSERT_TRUE(store_.index().Put(context_, own.record, own.blobs).ok());
  Rebuild();
  ExpectPublished(own);
}

TEST_F(HotRebuildTest, PublishesTheMostRecentlyUsedWhereNotAllFit) {
  const MadeArtifact a = Store("a"), b = Store("b"), c = Store("c");
  clock_.Advance(std::chrono::minutes(1));
  ASSERT_TRUE(store_.index().Get(context_, a.record.key).ok());
  options_.bytes_max = 3000;
  Reopen();
  Rebuild();
  EXPECT_TRUE(IsThere(a) && IsThere(c));
  EXPECT_FALSE(IsThere(b));
  EXPECT_EQ(hot().Stats().evicted, 0u);
}

TEST_F(HotRebuildTest, NumberOfFilesIsBounded) {
  const MadeArtifact a = Store("a"), b = Store("b");
  options_.files_max = 1;
  Reopen();
  Rebuild();
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(IsThere(b));
}

TEST_F(HotRebuildTest, EvictsTheLeastRecentlyUsedAfterARebuild) {
  const MadeArtifact a = Store("a"), b = Store("b");
  options_.files_max = 2;
  Reopen();
  Rebuild();
  PutOne("c");
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(IsThere(b));
}

TEST_F(HotRebuildTest, RebuildCountsNoUses) {
  const MadeArtifact a = Store("a");
  Rebuild();
  const auto all = store_.index().Scan(context_, std::nullopt, 10);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->at(0).usage.hits, 0u);
}

TEST_F(HotRebuildTest, PublishesAnewAfterARestartWhatTheStoreHas) {
  const MadeArtifact kept = Store("kept");
  hot().OnPut(kept.record, kept.blobs);
  const MadeArtifact gone = PutOne("gone");
  Reopen();
  Rebuild();
  ExpectPublished(kept);
  EXPECT_FALSE(IsThere(gone));
}

TEST_F(HotRebuildTest, PublishesNothingTwice) {
  const MadeArtifact a = Store("a");
  hot().OnPut(a.record, a.blobs);
  Rebuild();
  ExpectPublished(a);
  EXPECT_EQ(hot().Stats().published, 1u);
}

TEST_F(HotRebuildTest, ArtifactPutDuringARebuildStays) {
  Store("a");
  // Between the look at the directory and the end of the scan; the scan does not see it.
  bool is_first = true;
  MadeArtifact late;
  const absl::Status status = hot().Rebuild(
      store_, store_,
      [&] {
        if (std::exchange(is_first, false)) late = PutOne("late");
        return false;
      },
      kIgnoreRecords);
  ASSERT_TRUE(status.ok()) << status;
  ExpectPublished(late);
}

TEST_F(HotRebuildTest, ArtifactRemovedDuringARebuildIsNotPublished) {
  const MadeArtifact a = Store("a");
  int asked = 0;
  const absl::Status status = hot().Rebuild(
      store_, store_,
      [&] {
        // Chosen already, not published yet.
        if (++asked == 3) {
          EXPECT_TRUE(store_.index().Remove(context_, a.record.key).ok());
          hot().OnRemove(a.record.key);
        }
        return false;
      },
      kIgnoreRecords);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(IsThere(a));
}

TEST_F(HotRebuildTest, AMissingBlobIsLeftOut) {
  const MadeArtifact a = Store("a"), b = Store("b");
  MemoryStore without_blobs(kRoomy, clock_);
  ASSERT_TRUE(without_blobs.Put(context_, b.record, b.blobs).ok());
  const absl::Status status = hot().Rebuild(
      store_, without_blobs, [] { return false; }, kIgnoreRecords);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(IsThere(b));
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotRebuildTest, RebuildStopsOnRequest) {
  const MadeArtifact a = Store("a"), b = Store("b"), c = Store("c");
  int asked = 0;
  const absl::Status status = hot().Rebuild(
      store_, store_, [&] { return ++asked == 4; }, kIgnoreRecords);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(hot().Stats().published, 1u);
}

TEST_F(HotRebuildTest, AUsedArtifactIsPublishedAsItIsStored) {
  const MadeArtifact made = Store("a");
  ASSERT_TRUE(hot().PublishFrom(store_, store_, made.record.key).ok());
  ExpectPublished(made);
  ASSERT_TRUE(hot().PublishFrom(store_, store_, made.record.key).ok());
  EXPECT_EQ(hot().Stats().published, 1u);
  EXPECT_EQ(store_.Scan({}, std::nullopt, 1)->front().usage.hits, 0u);
}

TEST_F(HotRebuildTest, AUsedUserCacheEntryIsPublishedAndAnEvictedArtifactIsNot) {
  const MadeArtifact own = MakeOwn(geteuid());
  ASSERT_TRUE(store_.Put(context_, own.record, own.blobs).ok());
  ASSERT_TRUE(hot().PublishFrom(store_, store_, own.record.key).ok());
  ASSERT_TRUE(hot().PublishFrom(store_, store_, MadeKey("evicted")).ok());
  ExpectPublished(own);
  EXPECT_EQ(hot().Stats().files, 1u);
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotRebuildTest, AnArtifactLargerThanTheDirectoryIsLeftOut) {
  const MadeArtifact small = Store("small");
  const MadeArtifact huge = Store("huge", 100'000);
  options_.bytes_max = 50'000;
  Reopen();
  Rebuild();
  EXPECT_TRUE(IsThere(small));
  EXPECT_FALSE(IsThere(huge));
}

}  // namespace
}  // namespace kiln
