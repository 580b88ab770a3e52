#include "storage/waiting_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using absl::StatusCode;

class WaitingStoreTest : public testing::Test {
 protected:
  WaitingStoreTest() {
    auto meanwhile = std::make_unique<MemoryStore>(limits::kMiB, clock_);
    EXPECT_TRUE(meanwhile->index().Put(context_, readable_.record, readable_.blobs).ok());
    store_ = std::make_unique<WaitingStore>(
        std::move(meanwhile), "the disk is full", [this] { return Open(); },
        std::chrono::milliseconds(1));
  }

  // What attempts to open say from now on; OK: they open a store that holds nothing.
  void LetAttemptsSay(absl::Status status) {
    std::lock_guard lock(mutex_);
    attempts_say_ = std::move(status);
  }
  absl::StatusOr<std::unique_ptr<Store>> Open() {
    std::lock_guard lock(mutex_);
    // A new one each time: copies count their references where ThreadSanitizer does not see it.
    if (!attempts_say_.ok()) return MakeStatus(attempts_say_.code(), "{}", Message(attempts_say_));
    return std::make_unique<MemoryStore>(limits::kMiB, clock_);
  }
  absl::Status Put(const MadeArtifact& made) {
    return store_->index().Put(context_, made.record, made.blobs);
  }
  StatusCode RecordCode(const MadeArtifact& made) {
    return store_->index().Get(context_, made.record.key).status().code();
  }

  FakeClock clock_;
  CallContext context_;
  const MadeArtifact readable_ = MakeArtifact("readable");
  const MadeArtifact other_ = MakeArtifact("other");
  std::mutex mutex_;
  absl::Status attempts_say_ = ResourceExhausted("still full");
  std::unique_ptr<WaitingStore> store_;
};

TEST_F(WaitingStoreTest, ReadsMeanwhileStoreAndRefusesChanges) {
  EXPECT_EQ(RecordCode(readable_), StatusCode::kOk);
  EXPECT_TRUE(store_->blobs().GetBlob(context_, readable_.blobs[1].digest()).ok());
  EXPECT_EQ(store_->index().Scan(context_, std::nullopt, 10)->size(), 1u);
  EXPECT_EQ(RecordCode(other_), StatusCode::kNotFound);

  const Digest& key = readable_.record.key;
  EXPECT_EQ(Put(other_).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->index().Remove(context_, key).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->index().SetPinned(context_, key, true).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->CollectUnreferencedBlobs(context_).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(RecordCode(readable_), StatusCode::kOk);
  EXPECT_NE(store_->Stats().degraded, "");
  EXPECT_EQ(store_->Stats().artifacts, 1u);
  EXPECT_EQ(store_->Describe(), "waiting");
}

TEST_F(WaitingStoreTest, UsesTheOpenedStoreOnceItIsOpen) {
  LetAttemptsSay(absl::OkStatus());
  store_->WaitUntilOpen();
  EXPECT_EQ(store_->Stats().degraded, "");
  EXPECT_EQ(RecordCode(readable_), StatusCode::kNotFound);
  EXPECT_TRUE(Put(other_).ok());
  EXPECT_EQ(RecordCode(other_), StatusCode::kOk);
  EXPECT_TRUE(store_->index().SetPinned(context_, other_.record.key, true).ok());
  EXPECT_TRUE(store_->index().Remove(context_, other_.record.key).ok());
  EXPECT_EQ(store_->Describe(), "memory");
}

TEST_F(WaitingStoreTest, ReportsTheErrorOfTheLastAttemptAndTriesAgain) {
  LetAttemptsSay(FailedPrecondition("in use by another process"));
  while (store_->Stats().degraded != "in use by another process") std::this_thread::yield();
  EXPECT_EQ(Put(other_).code(), StatusCode::kResourceExhausted);
  LetAttemptsSay(absl::OkStatus());
  store_->WaitUntilOpen();
  EXPECT_TRUE(Put(other_).ok());
}

TEST_F(WaitingStoreTest, EndsWhileItWaits) {
  const WaitingStore patient(
      std::make_unique<MemoryStore>(0, clock_), "the disk is full", [this] { return Open(); },
      std::chrono::hours(1000));
  EXPECT_EQ(patient.Stats().degraded, "the disk is full");
}

}  // namespace
}  // namespace kiln
