// What the callers of a store wait for, and what goes on beside them.
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/storage/rocks/rocks_fixture.h"

namespace kiln {
namespace {

// A file system that notes which threads write, and does something when one reads.
class WatchedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  WatchedFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "WatchedFileSystem"; }

  // The threads that have written since the last call.
  std::set<std::thread::id> TakeWriters() {
    std::lock_guard lock(mutex_);
    return std::exchange(writers_, {});
  }
  // Before the next read of a table on the calling thread, and only before that.
  void BeforeNextRead(std::function<void()> act) {
    std::lock_guard lock(mutex_);
    reader_ = std::this_thread::get_id();
    before_read_ = std::move(act);
  }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<File>(std::move(file), *this);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, &file, debug);
    if (status.ok()) *result = std::make_unique<Table>(std::move(file), *this);
    return status;
  }

 private:
  class Table final : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    Table(std::unique_ptr<rocksdb::FSRandomAccessFile> file, WatchedFileSystem& files)
        : FSRandomAccessFileOwnerWrapper(std::move(file)), files_(files) {}

    rocksdb::IOStatus Read(uint64_t offset, size_t size, const rocksdb::IOOptions& options,
                           rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* debug) const override {
      files_.BeginRead();
      return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
    }

   private:
    WatchedFileSystem& files_;
  };

  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, WatchedFileSystem& files)
        : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      files_.NoteWriter();
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& verification,
                             rocksdb::IODebugContext* debug) override {
      files_.NoteWriter();
      return FSWritableFileOwnerWrapper::Append(data, options, verification, debug);
    }

   private:
    WatchedFileSystem& files_;
  };

  void NoteWriter() {
    std::lock_guard lock(mutex_);
    writers_.insert(std::this_thread::get_id());
  }

  void BeginRead() {
    std::function<void()> act;
    {
      std::lock_guard lock(mutex_);
      if (std::this_thread::get_id() == reader_) act = std::exchange(before_read_, nullptr);
    }
    if (act) act();
  }

  std::mutex mutex_;
  std::set<std::thread::id> writers_;
  std::thread::id reader_;
  std::function<void()> before_read_;
};

class RocksThreadsTest : public RocksFixture {
 protected:
  RocksThreadsTest() { OpenWatched(); }
  ~RocksThreadsTest() override { Close(); }

  void OpenWatched() {
    Close();
    RocksStoreOptions watched = options();
    watched.env = env_.get();
    auto opened = OpenRocksStore(watched, filesystem_, clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    store_ = std::move(opened->store);
  }
  static MadeArtifact WithBlobsOf(const MadeArtifact& other, std::string_view name) {
    MadeArtifact made = other;
    made.record.key = MadeKey(name);
    return made;
  }

  const std::shared_ptr<WatchedFileSystem> files_ = std::make_shared<WatchedFileSystem>();
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(files_);
};

TEST_F(RocksThreadsTest, UsesAreWrittenOnAThreadOfTheirOwn) {
  const MadeArtifact made = MakeArtifact("used");
  ASSERT_TRUE(Put(made).ok());
  ASSERT_TRUE(files_->TakeWriters().contains(std::this_thread::get_id()));

  clock_.Advance(limits::kPendingUsesAge);
  ASSERT_EQ(RecordCode(made.record.key), absl::StatusCode::kOk);
  rocks().WaitUntilIdle();
  EXPECT_EQ(files_->TakeWriters().count(std::this_thread::get_id()), 0u);

  // Uses that a tier above brings do not hold it up either.
  clock_.Advance(limits::kPendingUsesAge);
  const UseCount brought[] = {{made.record.key, 40, clock_.UnixMillis()}};
  store().CountUses(brought);
  rocks().WaitUntilIdle();
  const std::set<std::thread::id> writers = files_->TakeWriters();
  EXPECT_EQ(writers.size(), 1u);
  EXPECT_FALSE(writers.contains(std::this_thread::get_id()));
}

TEST_F(RocksThreadsTest, PutsAndRemovalsDuringARecountAreCounted) {
  const MadeArtifact kept = MakeArtifact("kept");
  const MadeArtifact gone = MakeArtifact("gone");
  const MadeArtifact lost = MakeArtifact("lost");
  const MadeArtifact twin = WithBlobsOf(kept, "twin of kept");
  for (const MadeArtifact& made : {kept, gone, lost}) ASSERT_TRUE(Put(made).ok());
  // More than one block of a table, so that counting has to read.
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Put(MakeArtifact(std::to_string(i), 100)).ok());
  Tamper([&](RocksDatabase::Batch& batch) {
    batch.Put(RocksFamily::kArtifacts, lost.record.key.Bytes(), "damaged");
  });
  OpenWatched();
  ASSERT_EQ(RecordCode(lost.record.key), absl::StatusCode::kDataLoss);

  std::future<bool> others;
  files_->BeforeNextRead([&] {
    others = std::async(std::launch::async, [&] {
      return Put(twin).ok() && store().index().Remove(context_, gone.record.key).ok();
    });
  });
  const auto collected = store().CollectUnreferencedBlobs(context_);
  ASSERT_TRUE(others.valid()) << "nothing was read";
  EXPECT_TRUE(others.get());
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(*collected, lost.blobs.size());

  // The books are right: each blob goes with the last record that names it.
  ExpectStored(kept);
  ASSERT_TRUE(store().index().Remove(context_, kept.record.key).ok());
  ExpectStored(twin);
  ASSERT_TRUE(store().index().Remove(context_, twin.record.key).ok());
  EXPECT_EQ(BlobCode(twin.blobs[1]), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Put(gone).ok());
  ASSERT_TRUE(store().index().Remove(context_, gone.record.key).ok());
  EXPECT_EQ(BlobCode(gone.blobs[1]), absl::StatusCode::kNotFound);
  EXPECT_EQ(*store().CollectUnreferencedBlobs(context_), 0u);
}

}  // namespace
}  // namespace kiln
