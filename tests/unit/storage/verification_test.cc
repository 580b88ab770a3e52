#include "storage/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "storage/base/limits.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using absl::StatusCode;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Blobs of which some do not read. Like a real store it says DATA_LOSS once, and NOT_FOUND then.
class BrokenBlobs final : public BlobStore {
 public:
  explicit BrokenBlobs(BlobStore& blobs) : blobs_(blobs) {}

  void Damage(const Blob& blob) { errors_[blob.digest()] = DataLoss("does not match its digest"); }
  void Lose(const Blob& blob) { errors_[blob.digest()] = NotFound("no blob"); }
  void Fail(const Blob& blob) { errors_[blob.digest()] = Unavailable("the disk does not answer"); }
  void BeforeGet(std::function<void()> action) { before_get_ = std::move(action); }

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override {
    if (before_get_) before_get_();
    const auto it = errors_.find(digest);
    if (it == errors_.end()) return blobs_.GetBlob(context, digest);
    const absl::Status error = it->second;
    if (absl::IsDataLoss(error)) it->second = NotFound("put aside");
    return error;
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return blobs_.FindMissing(context, digests);
  }

 private:
  BlobStore& blobs_;
  std::map<Digest, absl::Status> errors_;
  std::function<void()> before_get_;
};

// Removes nothing.
class StubbornStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  absl::Status Remove(const CallContext&, const Digest&) override {
    return ResourceExhausted("disk full");
  }
};

class VerificationTest : public testing::Test {
 protected:
  MadeArtifact Put(std::string_view name) {
    MadeArtifact made = MakeArtifact(name);
    EXPECT_TRUE(store_.index().Put(context_, made.record, made.blobs).ok());
    return made;
  }
  bool IsThere(const Digest& key) { return store_.index().Get(context_, key).ok(); }
  absl::StatusOr<VerificationProgress> Verify(VerificationCallback callback =
                                                  [](const VerificationProgress&) {}) {
    return VerifyArtifacts(context_, store_.index(), blobs_, store_.index(), callback);
  }

  CallContext context_;
  FakeClock clock_;
  MemoryStore store_{64 * limits::kMiB, clock_};
  BrokenBlobs blobs_{store_.blobs()};
};

TEST_F(VerificationTest, AnEmptyStoreIsFine) {
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(*progress, (VerificationProgress{0, 0, {}, true}));
}

TEST_F(VerificationTest, ASoundStoreStaysAsItIs) {
  const MadeArtifact a = Put("a"), b = Put("b");
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->checked, 2u);
  EXPECT_EQ(progress->checked_bytes, a.blobs[0].size_bytes() + a.blobs[1].size_bytes() +
                                         b.blobs[0].size_bytes() + b.blobs[1].size_bytes());
  EXPECT_THAT(progress->damaged, IsEmpty());
  EXPECT_TRUE(progress->done);
  EXPECT_TRUE(IsThere(a.record.key) && IsThere(b.record.key));
}

TEST_F(VerificationTest, DamagedBlobRemovesItsArtifact) {
  const MadeArtifact bad = Put("bad"), good = Put("good");
  blobs_.Damage(bad.blobs[1]);
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, UnorderedElementsAre(bad.record.key));
  EXPECT_EQ(progress->checked, 2u);
  EXPECT_FALSE(IsThere(bad.record.key));
  EXPECT_TRUE(IsThere(good.record.key));
}

TEST_F(VerificationTest, MissingBlobRemovesItsArtifact) {
  const MadeArtifact bad = Put("bad");
  blobs_.Lose(bad.blobs[0]);
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, UnorderedElementsAre(bad.record.key));
  EXPECT_FALSE(IsThere(bad.record.key));
}

TEST_F(VerificationTest, WrongSizeInARecordRemovesTheArtifact) {
  MadeArtifact bad = MakeArtifact("bad");
  bad.record.stages[1].size_bytes += 1;
  ASSERT_TRUE(store_.index().Put(context_, bad.record, bad.blobs).ok());
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, UnorderedElementsAre(bad.record.key));
}

TEST_F(VerificationTest, DamagedBlobOfTwoArtifactsRemovesBoth) {
  const MadeArtifact one = Put("one");
  MadeArtifact two = one;
  two.record.key = MadeKey("two");
  ASSERT_TRUE(store_.index().Put(context_, two.record, two.blobs).ok());
  blobs_.Damage(one.blobs[1]);
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, UnorderedElementsAre(one.record.key, two.record.key));
}

TEST_F(VerificationTest, AnArtifactEvictedMeanwhileIsNoDamage) {
  const MadeArtifact made = Put("evicted");
  blobs_.BeforeGet([&] { (void)store_.index().Remove(context_, made.record.key); });
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, IsEmpty());
}

TEST_F(VerificationTest, AnArtifactReplacedMeanwhileIsNoDamage) {
  const MadeArtifact old = Put("old");
  MadeArtifact renewed = MakeArtifact("renewed");
  renewed.record.key = old.record.key;
  blobs_.BeforeGet(
      [&] { ASSERT_TRUE(store_.index().Put(context_, renewed.record, renewed.blobs).ok()); });
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(progress->damaged, IsEmpty());
  EXPECT_TRUE(IsThere(renewed.record.key));
}

TEST_F(VerificationTest, VerifiesEveryPage) {
  const size_t count = limits::kListPageMax + 1;
  for (size_t i = 0; i < count; ++i) Put(fmt::format("kernel {}", i));
  const auto progress = Verify();
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->checked, count);
}

TEST_F(VerificationTest, TheCallbackSeesEveryStepAndTheEnd) {
  Put("a");
  Put("b");
  std::vector<std::pair<uint64_t, bool>> seen;
  const auto progress =
      Verify([&](const VerificationProgress& now) { seen.emplace_back(now.checked, now.done); });
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_THAT(seen,
              testing::ElementsAre(std::pair(1, false), std::pair(2, false), std::pair(2, true)));
}

TEST_F(VerificationTest, CancellationStopsIt) {
  for (const char* name : {"a", "b", "c"}) Put(name);
  VerificationProgress seen;
  const auto progress = Verify([&](const VerificationProgress& now) {
    seen = now;
    if (now.checked == 2) context_.cancellation.Cancel();
  });
  EXPECT_EQ(progress.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(seen.checked, 2u);
  EXPECT_FALSE(seen.done);
}

TEST_F(VerificationTest, UnreadableStoreIsNotDamaged) {
  const MadeArtifact made = Put("a");
  blobs_.Fail(made.blobs[1]);
  EXPECT_EQ(Verify().status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(IsThere(made.record.key));
}

TEST_F(VerificationTest, RemovesFromTheOuterIndexAndReturnsItsError) {
  const MadeArtifact bad = Put("bad");
  blobs_.Damage(bad.blobs[1]);
  StubbornStore outer(std::make_unique<MemoryStore>(0, clock_));
  const auto progress =
      VerifyArtifacts(context_, store_.index(), blobs_, outer, [](const VerificationProgress&) {});
  EXPECT_EQ(progress.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsThere(bad.record.key));
}

}  // namespace
}  // namespace kiln
