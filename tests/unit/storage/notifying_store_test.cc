#include "storage/notifying_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "storage/base/filesystem.h"
#include "storage/memory_store.h"
#include "storage/quota_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// Writes down what it hears.
class Recorder final : public ArtifactListener {
 public:
  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(blobs.empty());
    heard_.push_back("put " + record.key.ShortHex());
  }
  void OnRemove(const Digest& key) override {
    const std::lock_guard lock(mutex_);
    heard_.push_back("remove " + key.ShortHex());
  }
  std::vector<std::string> Heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> heard_;
};

std::string PutOf(const MadeArtifact& made) { return "put " + made.record.key.ShortHex(); }
std::string RemovalOf(const MadeArtifact& made) { return "remove " + made.record.key.ShortHex(); }

class NotifyingStoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> MakeStore(uint64_t bytes_max, std::vector<ArtifactListener*> listeners) {
    return std::make_unique<NotifyingStore>(std::make_unique<MemoryStore>(bytes_max, clock_),
                                            std::move(listeners));
  }

  CallContext context_;
  FakeClock clock_;
  Recorder recorder_;
};

TEST_F(NotifyingStoreTest, ListenersHearPutsAndRemovalsInOrder) {
  Recorder second;
  const auto store = MakeStore(1 << 20, {&recorder_, &second});
  const MadeArtifact made = MakeArtifact("a");
  ASSERT_TRUE(store->index().Put(context_, made.record, made.blobs).ok());
  ASSERT_TRUE(store->index().Remove(context_, made.record.key).ok());
  EXPECT_THAT(recorder_.Heard(), ElementsAre(PutOf(made), RemovalOf(made)));
  EXPECT_EQ(second.Heard(), recorder_.Heard());
}

TEST_F(NotifyingStoreTest, FailedPutIsNotReported) {
  const auto store = MakeStore(100, {&recorder_});
  const MadeArtifact made = MakeArtifact("too large");
  EXPECT_FALSE(store->index().Put(context_, made.record, made.blobs).ok());
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
}

TEST_F(NotifyingStoreTest, RemovalOfAMissingRecordIsReported) {
  const auto store = MakeStore(1 << 20, {&recorder_});
  const MadeArtifact made = MakeArtifact("a");
  EXPECT_TRUE(absl::IsNotFound(store->index().Remove(context_, made.record.key)));
  EXPECT_THAT(recorder_.Heard(), ElementsAre(RemovalOf(made)));
}

TEST_F(NotifyingStoreTest, ReadsAreNotReported) {
  const auto store = MakeStore(1 << 20, {&recorder_});
  (void)store->index().Get(context_, MadeKey("a"));
  (void)store->index().Scan(context_, std::nullopt, 10);
  (void)store->index().SetPinned(context_, MadeKey("a"), true);
  EXPECT_THAT(recorder_.Heard(), IsEmpty());
}

TEST_F(NotifyingStoreTest, EvictionsOfTheQuotaStoreAboveAreReported) {
  QuotaOptions options;
  options.bytes_max = 20'000;
  options.free_disk_bytes_min = 0;
  options.disk_path = "/";
  QuotaStore store(MakeStore(1 << 20, {&recorder_}), options, OsFilesystem(), clock_);
  const MadeArtifact old = MakeArtifact("old", 10'000);
  const MadeArtifact fresh = MakeArtifact("fresh", 15'000);
  ASSERT_TRUE(store.index().Put(context_, old.record, old.blobs).ok());
  ASSERT_TRUE(store.index().Put(context_, fresh.record, fresh.blobs).ok());
  EXPECT_THAT(recorder_.Heard(), Contains(RemovalOf(old)));
}

// Hears at most one change of a key at a time, and ends up knowing what the store knows.
class Mirror final : public ArtifactListener {
 public:
  void OnPut(const ArtifactRecord& record, std::span<const Blob>) override {
    Note(record.key, record.document);
  }
  void OnRemove(const Digest& key) override { Note(key, ""); }
  // Empty where the key is not there.
  std::string DocumentOf(const Digest& key) { return documents_[key]; }
  bool HasOverlapped() const { return has_overlapped_; }

 private:
  void Note(const Digest& key, const std::string& document) {
    {
      const std::lock_guard lock(mutex_);
      if (busy_[key]) has_overlapped_ = true;
      busy_[key] = true;
    }
    std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    busy_[key] = false;
    documents_[key] = document;
  }

  std::mutex mutex_;
  std::map<Digest, bool> busy_;
  std::map<Digest, std::string> documents_;
  std::atomic<bool> has_overlapped_ = false;
};

TEST_F(NotifyingStoreTest, ConcurrentChangesOfAKeyAreReportedInOrder) {
  Mirror mirror;
  const auto store = MakeStore(1 << 20, {&mirror});
  const Digest keys[] = {MadeKey("a"), MadeKey("b")};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 100; ++round) {
        MadeArtifact made = MakeArtifact(fmt::format("{} {}", t, round), 10);
        made.record.key = keys[round % 2];
        EXPECT_TRUE(store->index().Put(context_, made.record, made.blobs).ok());
        if (round % 5 == t) (void)store->index().Remove(context_, made.record.key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(mirror.HasOverlapped());
  for (const Digest& key : keys) {
    const auto found = store->index().Get(context_, key);
    EXPECT_EQ(mirror.DocumentOf(key), found.ok() ? found->record->document : "");
  }
}

}  // namespace
}  // namespace kiln
