// The real file system, with a disk as full and as broken as a test wants it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/filesystem.h"

namespace kiln {

// Thread-safe.
class FakeFilesystem final : public Filesystem {
 public:
  // What FreeBytes says; everything else does not know of it.
  void SetFreeBytes(uint64_t bytes) { free_bytes_ = bytes; }
  // What every attempt to write a new file says; 0: writes.
  void FailWritesWith(int error_number) { write_error_ = error_number; }
  // Called in the middle of every renaming. REQUIRES: no other thread uses the file system.
  void OnRename(std::function<void()> callback) { on_rename_ = std::move(callback); }

  absl::StatusOr<uint64_t> FreeBytes(const std::string&) override { return free_bytes_.load(); }
  absl::Status MakeDirectory(const std::string& path, mode_t mode) override {
    return real_.MakeDirectory(path, mode);
  }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return real_.List(path);
  }
  absl::StatusOr<std::string> Read(const std::string& path, uint64_t size_bytes_max) override {
    return real_.Read(path, size_bytes_max);
  }
  absl::Status WriteNew(const std::string& path, std::string_view content, mode_t mode) override {
    if (write_error_ != 0) return ErrnoStatus(write_error_, "create " + path);
    return real_.WriteNew(path, content, mode);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (on_rename_) on_rename_();
    return real_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return real_.Remove(path); }

 private:
  Filesystem& real_ = OsFilesystem();
  std::atomic<uint64_t> free_bytes_ = uint64_t{1} << 40;
  std::atomic<int> write_error_ = 0;
  std::function<void()> on_rename_;
};

}  // namespace kiln
