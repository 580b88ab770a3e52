#include "storage/memory_store.h"

#include <gtest/gtest.h>

#include <vector>

#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using absl::StatusCode;

class MemoryStoreTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytesMax = 100'000;

  absl::Status Put(const MadeArtifact& made) {
    return store_.index().Put(context_, made.record, made.blobs);
  }
  bool Has(const MadeArtifact& made) {
    return store_.index().Get(context_, made.record.key).ok() &&
           store_.blobs().GetBlob(context_, made.blobs.back().digest()).ok();
  }

  FakeClock clock_;
  CallContext context_;
  MemoryStore store_{kBytesMax, clock_};
};

TEST_F(MemoryStoreTest, StaysWithinItsBoundOverManyPuts) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Put(MakeArtifact(fmt::format("kernel {}", i), 7000)).ok());
    ASSERT_LE(store_.Stats().stored_bytes, kBytesMax);
  }
  EXPECT_GT(store_.Stats().artifacts, 5u);
  EXPECT_GT(store_.Stats().evicted, 0u);
}

TEST_F(MemoryStoreTest, EvictsTheLeastRecentlyUsed) {
  const MadeArtifact used = MakeArtifact("used", 20'000);
  const MadeArtifact idle = MakeArtifact("idle", 20'000);
  ASSERT_TRUE(Put(used).ok());
  ASSERT_TRUE(Put(idle).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Has(used));
    ASSERT_TRUE(Put(MakeArtifact(fmt::format("other {}", i), 20'000)).ok());
  }
  EXPECT_TRUE(Has(used));
  EXPECT_FALSE(Has(idle));
}

TEST_F(MemoryStoreTest, RefusesArtifactLargerThanTheStoreAndEvictsNothing) {
  const MadeArtifact here = MakeArtifact("here");
  ASSERT_TRUE(Put(here).ok());
  EXPECT_EQ(Put(MakeArtifact("huge", kBytesMax)).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Has(here));
}

TEST_F(MemoryStoreTest, AHitSharesRecordAndBytes) {
  const MadeArtifact made = MakeArtifact("shared");
  ASSERT_TRUE(Put(made).ok());
  const auto one = store_.index().Get(context_, made.record.key);
  const auto two = store_.index().Get(context_, made.record.key);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->record.get(), two->record.get());
  const auto blob = store_.blobs().GetBlob(context_, made.blobs[1].digest());
  ASSERT_TRUE(blob.ok());
  EXPECT_EQ(blob->blob.bytes().data(), made.blobs[1].bytes().data());
}

TEST_F(MemoryStoreTest, ARecordMayComeWithoutItsBlobs) {
  const MadeArtifact made = MakeArtifact("record only");
  ASSERT_TRUE(store_.Put(context_, made.record, {}).ok());
  EXPECT_TRUE(store_.Get(context_, made.record.key).ok());
  EXPECT_FALSE(store_.GetBlob(context_, made.blobs[1].digest()).ok());
  store_.KeepBlob(made.blobs[1]);
  EXPECT_TRUE(Has(made));
  ASSERT_TRUE(store_.Remove(context_, made.record.key).ok());
  EXPECT_FALSE(store_.GetBlob(context_, made.blobs[1].digest()).ok());
  EXPECT_EQ(store_.Stats().stored_bytes, 0u);
}

TEST_F(MemoryStoreTest, KeepsNoBlobThatNoRecordNames) {
  const Blob lone = Blob::FromBytes("lone");
  store_.KeepBlob(lone);
  EXPECT_FALSE(store_.GetBlob(context_, lone.digest()).ok());
  EXPECT_EQ(store_.Stats().stored_bytes, 0u);
}

TEST_F(MemoryStoreTest, KeepsWithinItsBoundWhenBlobsComeLater) {
  for (int i = 0; i < 30; ++i) {
    const MadeArtifact made = MakeArtifact(fmt::format("kernel {}", i), 20'000);
    ASSERT_TRUE(store_.Put(context_, made.record, {}).ok());
    for (const Blob& blob : made.blobs) store_.KeepBlob(blob);
    ASSERT_LE(store_.Stats().stored_bytes, kBytesMax);
    EXPECT_TRUE(Has(made));
  }
  const MadeArtifact huge = MakeArtifact("huge", kBytesMax);
  ASSERT_TRUE(store_.Put(context_, huge.record, {}).ok());
  store_.KeepBlob(huge.blobs.back());
  EXPECT_FALSE(Has(huge));
  EXPECT_GT(store_.Stats().artifacts, 1u);
}

}  // namespace
}  // namespace kiln
