// A RocksDB environment whose disk fills up, or slows down, when told to.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace kiln {

// Passes everything on to the real file system, except that while the disk is full nothing can be
// appended and no file be made, and that blob files take some time for each byte. Thread-safe.
class FullDiskFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FullDiskFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FullDiskFileSystem"; }
  void SetFull(bool is_full) { is_full_ = is_full; }
  void FailOneAppend() { fails_once_ = true; }
  void SetBlobSpeed(uint64_t bytes_per_second) { blob_bytes_per_second_ = bytes_per_second; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &file, debug);
    if (status.ok()) {
      *result = std::make_unique<File>(std::move(file), *this, name.ends_with(".blob"));
    }
    return status;
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options,
                                 uint64_t* free, rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::GetFreeSpace(path, options, free, debug);
    if (is_full_) *free = 0;
    return status;
  }

 private:
  // As RocksDB's own file system reports ENOSPC.
  static rocksdb::IOStatus Full() {
    rocksdb::IOStatus status = rocksdb::IOStatus::NoSpace("no space left on device");
    status.SetRetryable(true);
    return status;
  }

  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, FullDiskFileSystem& disk, bool has_blobs)
        : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk), has_blobs_(has_blobs) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      if (disk_.is_full_ || disk_.fails_once_.exchange(false)) return Full();
      Take(data.size());
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& verification,
                             rocksdb::IODebugContext* debug) override {
      if (disk_.is_full_ || disk_.fails_once_.exchange(false)) return Full();
      Take(data.size());
      return FSWritableFileOwnerWrapper::Append(data, options, verification, debug);
    }

   private:
    // The time that the disk takes for so many bytes.
    void Take(size_t bytes) const {
      const uint64_t speed = disk_.blob_bytes_per_second_;
      if (!has_blobs_ || speed == 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(bytes * 1'000'000 / speed));
    }

    FullDiskFileSystem& disk_;
    const bool has_blobs_;
  };

  std::atomic<bool> is_full_ = false;
  std::atomic<bool> fails_once_ = false;
  std::atomic<uint64_t> blob_bytes_per_second_ = 0;  // 0: as the file system does
};

// An environment over that file system. RocksDB recovers by itself only where the environment, and
// not the file system alone, can tell how much is free.
class FullDiskEnv final : public rocksdb::EnvWrapper {
 public:
  FullDiskEnv() : FullDiskEnv(std::make_shared<FullDiskFileSystem>()) {}

  const char* Name() const override { return "FullDiskEnv"; }
  void SetFull(bool is_full) { files_->SetFull(is_full); }
  // The disk is full for the next append alone.
  void FailOneAppend() { files_->FailOneAppend(); }
  void SetBlobSpeed(uint64_t bytes_per_second) { files_->SetBlobSpeed(bytes_per_second); }
  rocksdb::Status GetFreeSpace(const std::string& path, uint64_t* free) override {
    return files_->GetFreeSpace(path, rocksdb::IOOptions(), free, nullptr);
  }

 private:
  explicit FullDiskEnv(std::shared_ptr<FullDiskFileSystem> files)
      : EnvWrapper(rocksdb::NewCompositeEnv(files)), files_(std::move(files)) {}

  const std::shared_ptr<FullDiskFileSystem> files_;
};

}  // namespace kiln
