// What every ArtifactIndex does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "storage/base/limits.h"
#include "tests/conformance/store_subject.h"
#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

using absl::StatusCode;

class ArtifactIndexConformance : public StoreConformance {
 protected:
  void Put(const MadeArtifact& made) {
    const absl::Status status = index().Put(context_, made.record, made.blobs);
    ASSERT_TRUE(status.ok()) << status;
  }
  void ExpectStored(const MadeArtifact& made) {
    const auto found = index().Get(context_, made.record.key);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found->record, made.record);
    for (const Blob& blob : made.blobs) {
      const auto held = blobs().GetBlob(context_, blob.digest());
      ASSERT_TRUE(held.ok()) << held.status();
      EXPECT_EQ(held->blob.bytes(), blob.bytes());
    }
  }
  StatusCode BlobCode(const Blob& blob) {
    return blobs().GetBlob(context_, blob.digest()).status().code();
  }
  StatusCode RecordCode(const Digest& key) { return index().Get(context_, key).status().code(); }
  bool IsPinned(const Digest& key) {
    const auto all = ScanAll();
    return std::any_of(all.begin(), all.end(), [&](const FoundArtifact& found) {
      return found.record->key == key && found.usage.pinned;
    });
  }
  std::vector<FoundArtifact> ScanAll() {
    auto found = index().Scan(context_, std::nullopt, 1000);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::vector<FoundArtifact>();
  }
};

TEST_P(ArtifactIndexConformance, UnknownKeyIsNotFound) {
  EXPECT_EQ(RecordCode(MadeKey("never")), StatusCode::kNotFound);
}

TEST_P(ArtifactIndexConformance, RecordAndBlobsComeBackAsTheyWere) {
  const MadeArtifact made = MakeArtifact("add");
  Put(made);
  ExpectStored(made);
}

TEST_P(ArtifactIndexConformance, DocumentsMayHoldAnyBytesAndBeLarge) {
  MadeArtifact made = MakeArtifact("large");
  made.record.document = std::string("\0\xff\"\n", 4) + Noise(3, limits::kMiB);
  Put(made);
  ExpectStored(made);
}

TEST_P(ArtifactIndexConformance, AnEmptyDocumentAndEmptyStagesAreFine) {
  MadeArtifact made = MakeArtifact("hollow");
  made.record.document.clear();
  made.record.stages = {{"cubin", Blob().digest(), 0}};
  made.blobs = {Blob()};
  Put(made);
  ExpectStored(made);
}

TEST_P(ArtifactIndexConformance, TwoStagesMayShareTheirContent) {
  MadeArtifact made = MakeArtifact("twins");
  made.record.stages[1] = {"cubin", made.blobs[0].digest(), made.blobs[0].size_bytes()};
  made.blobs.pop_back();
  Put(made);
  ExpectStored(made);
  ASSERT_TRUE(index().Remove(context_, made.record.key).ok());
  EXPECT_EQ(BlobCode(made.blobs[0]), StatusCode::kNotFound);
}

TEST_P(ArtifactIndexConformance, GettingCountsAsAUse) {
  const MadeArtifact made = MakeArtifact("used");
  Put(made);
  clock().Advance(std::chrono::seconds(5));
  ASSERT_TRUE(index().Get(context_, made.record.key).ok());
  ASSERT_TRUE(index().Get(context_, made.record.key).ok());
  ASSERT_TRUE(index().Get(context_, made.record.key).ok());
  EXPECT_EQ(ScanAll().at(0).usage.hits, 3u);
  EXPECT_EQ(ScanAll().at(0).usage.last_use_unix_ms, FakeClock::kStartUnixMillis + 5000);
}

TEST_P(ArtifactIndexConformance, AWarmsHitRenewsTheLastUseAndIsNotCounted) {
  const MadeArtifact made = MakeArtifact("warmed");
  Put(made);
  CallContext warm;
  warm.priority = Priority::kWarm;
  clock().Advance(std::chrono::seconds(5));
  ASSERT_TRUE(index().Get(warm, made.record.key).ok());
  EXPECT_EQ(ScanAll().at(0).usage.hits, 0u);
  EXPECT_EQ(ScanAll().at(0).usage.last_use_unix_ms, FakeClock::kStartUnixMillis + 5000);
}

TEST_P(ArtifactIndexConformance, ScanningIsNotAUse) {
  Put(MakeArtifact("idle"));
  EXPECT_EQ(ScanAll().at(0).usage.hits, 0u);
  EXPECT_EQ(ScanAll().at(0).usage.hits, 0u);
}

TEST_P(ArtifactIndexConformance, UsesCountedElsewhereAreAdded) {
  const MadeArtifact made = MakeArtifact("used above");
  Put(made);
  const int64_t later = FakeClock::kStartUnixMillis + 5000;
  const std::vector<UseCount> uses = {{made.record.key, 7, later}, {MadeKey("unknown"), 9, later}};
  store().CountUses(uses);
  const auto all = ScanAll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].usage.hits, 7u);
  EXPECT_EQ(all[0].usage.last_use_unix_ms, later);
}

TEST_P(ArtifactIndexConformance, NotesForWhomItWasPutFirst) {
  MadeArtifact made = MakeArtifact("kernel");
  made.record.name = "softmax";
  made.record.options = "BLOCK=64";
  CallContext context;
  context.principal.uid = 1000;
  context.job = "train";
  ASSERT_TRUE(index().Put(context, made.record, made.blobs).ok());
  context.principal.uid = 2000;
  ASSERT_TRUE(index().Put(context, made.record, made.blobs).ok());
  const ArtifactUsage usage = ScanAll().at(0).usage;
  EXPECT_EQ(usage.uid, 1000u);
  EXPECT_EQ(usage.job, "train");
  EXPECT_EQ(usage.options, "BLOCK=64");
  EXPECT_EQ(usage.name, "softmax");
  EXPECT_EQ(usage.created_unix_ms, made.record.created_unix_ms);
}

TEST_P(ArtifactIndexConformance, UsagesAreThoseOfAllRecordsInOrder) {
  for (int i = 0; i < 5; ++i) Put(MakeArtifact(std::to_string(i)));
  ASSERT_TRUE(index().SetPinned(context_, MadeKey("2"), true).ok());
  ASSERT_TRUE(index().Remove(context_, MadeKey("3")).ok());
  std::vector<FoundUsage> usages;
  std::optional<Digest> after;
  while (true) {
    const auto page = index().ScanUsages(context_, after, 3);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->size(), 3u);
    if (page->empty()) break;
    after = page->back().key;
    usages.insert(usages.end(), page->begin(), page->end());
  }
  const auto all = ScanAll();
  ASSERT_EQ(usages.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(usages[i].key, all[i].record->key);
    EXPECT_EQ(usages[i].usage, all[i].usage);
  }
}

TEST_P(ArtifactIndexConformance, PuttingAgainReplacesAndDropsWhatOnlyTheOldOneHad) {
  const MadeArtifact first = MakeArtifact("first");
  MadeArtifact second = MakeArtifact("second");
  second.record.key = first.record.key;
  Put(first);
  Put(second);
  ExpectStored(second);
  EXPECT_EQ(BlobCode(first.blobs[1]), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().artifacts, 1u);
}

TEST_P(ArtifactIndexConformance, PuttingTheSameAgainKeepsItsBlobs) {
  const MadeArtifact made = MakeArtifact("same");
  Put(made);
  const uint64_t bytes = store().Stats().stored_bytes;
  Put(made);
  ExpectStored(made);
  EXPECT_EQ(store().Stats().stored_bytes, bytes);
  EXPECT_EQ(store().Stats().artifacts, 1u);
}

TEST_P(ArtifactIndexConformance, RemovingARecordRemovesItsBlobs) {
  const MadeArtifact made = MakeArtifact("gone");
  Put(made);
  ASSERT_TRUE(index().Remove(context_, made.record.key).ok());
  EXPECT_EQ(RecordCode(made.record.key), StatusCode::kNotFound);
  EXPECT_EQ(BlobCode(made.blobs[0]), StatusCode::kNotFound);
  EXPECT_EQ(BlobCode(made.blobs[1]), StatusCode::kNotFound);
  EXPECT_EQ(store().Stats().artifacts, 0u);
  EXPECT_EQ(store().Stats().stored_bytes, 0u);
}

TEST_P(ArtifactIndexConformance, BlobStaysWhileARecordNamesIt) {
  const MadeArtifact one = MakeArtifact("one");
  MadeArtifact two = one;
  two.record.key = MadeKey("two");
  Put(one);
  Put(two);
  ASSERT_TRUE(index().Remove(context_, one.record.key).ok());
  ExpectStored(two);
  ASSERT_TRUE(index().Remove(context_, two.record.key).ok());
  EXPECT_EQ(BlobCode(one.blobs[1]), StatusCode::kNotFound);
}

TEST_P(ArtifactIndexConformance, RemovingTheUnknownIsNotFound) {
  EXPECT_EQ(index().Remove(context_, MadeKey("never")).code(), StatusCode::kNotFound);
}

TEST_P(ArtifactIndexConformance, ARemovedArtifactCanComeBack) {
  const MadeArtifact made = MakeArtifact("back");
  Put(made);
  ASSERT_TRUE(index().Remove(context_, made.record.key).ok());
  Put(made);
  ExpectStored(made);
}

TEST_P(ArtifactIndexConformance, ScanGoesThroughAllKeysInOrderPageByPage) {
  std::vector<Digest> keys;
  for (int i = 0; i < 25; ++i) {
    const MadeArtifact made = MakeArtifact(fmt::format("kernel {}", i), 50);
    keys.push_back(made.record.key);
    Put(made);
  }
  std::sort(keys.begin(), keys.end());

  std::vector<Digest> scanned;
  std::optional<Digest> after;
  while (true) {
    const auto page = index().Scan(context_, after, 10);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_LE(page->size(), 10u);
    for (const FoundArtifact& found : *page) scanned.push_back(found.record->key);
    if (page->size() < 10) break;
    after = scanned.back();
  }
  EXPECT_EQ(scanned, keys);
}

TEST_P(ArtifactIndexConformance, ScanOfAnEmptyIndexIsEmpty) { EXPECT_TRUE(ScanAll().empty()); }

TEST_P(ArtifactIndexConformance, PinsAreSetAndReleased) {
  const MadeArtifact made = MakeArtifact("pinned");
  Put(made);
  ASSERT_TRUE(index().Get(context_, made.record.key).ok());
  ASSERT_TRUE(index().SetPinned(context_, made.record.key, true).ok());
  EXPECT_TRUE(IsPinned(made.record.key));
  EXPECT_TRUE(ScanAll().at(0).usage.pinned);
  ASSERT_TRUE(index().SetPinned(context_, made.record.key, false).ok());
  EXPECT_FALSE(IsPinned(made.record.key));
  ExpectStored(made);
}

TEST_P(ArtifactIndexConformance, PinningTheUnknownIsNotFound) {
  EXPECT_EQ(index().SetPinned(context_, MadeKey("never"), true).code(), StatusCode::kNotFound);
}

TEST_P(ArtifactIndexConformance, AReplacedArtifactKeepsItsPin) {
  const MadeArtifact first = MakeArtifact("first");
  MadeArtifact second = MakeArtifact("second");
  second.record.key = first.record.key;
  Put(first);
  ASSERT_TRUE(index().SetPinned(context_, first.record.key, true).ok());
  Put(second);
  EXPECT_TRUE(IsPinned(first.record.key));
}

TEST_P(ArtifactIndexConformance, ARemovedArtifactLosesItsPinAndItsUses) {
  const MadeArtifact made = MakeArtifact("pinned");
  Put(made);
  ASSERT_TRUE(index().Get(context_, made.record.key).ok());
  ASSERT_TRUE(index().SetPinned(context_, made.record.key, true).ok());
  ASSERT_TRUE(index().Remove(context_, made.record.key).ok());
  Put(made);
  const auto all = ScanAll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].usage.pinned);
  EXPECT_EQ(all[0].usage.hits, 0u);
}

TEST_P(ArtifactIndexConformance, StatsCountWhatIsThere) {
  const MadeArtifact made = MakeArtifact("counted", 10'000);
  Put(made);
  const StoreStats stats = store().Stats();
  EXPECT_EQ(stats.artifacts, 1u);
  EXPECT_GE(stats.stored_bytes, 10'000u);
  EXPECT_EQ(stats.degraded, "");
}

// Threads put, remove and read the same few keys; whoever finds a record and its blobs finds
// matching bytes, since Blob itself checks, and the books balance in the end.
TEST_P(ArtifactIndexConformance, ManyThreadsOnTheSameKeys) {
  std::vector<MadeArtifact> made;
  for (int i = 0; i < 4; ++i) made.push_back(MakeArtifact(fmt::format("contended {}", i)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 25; ++round) {
        const MadeArtifact& mine = made[static_cast<size_t>(t + round) % made.size()];
        EXPECT_TRUE(index().Put(context_, mine.record, mine.blobs).ok());
        const auto found = index().Get(context_, mine.record.key);
        if (found.ok()) {
          EXPECT_EQ(*found->record, mine.record);
        }
        if (round % 3 == 0) (void)index().Remove(context_, mine.record.key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MadeArtifact& one : made) {
    Put(one);
    ExpectStored(one);
    ASSERT_TRUE(index().Remove(context_, one.record.key).ok());
  }
  EXPECT_EQ(store().Stats().artifacts, 0u);
  EXPECT_EQ(store().Stats().stored_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Stores, ArtifactIndexConformance, testing::ValuesIn(AllStoreKinds()),
                         StoreKindName);

}  // namespace
}  // namespace kiln
