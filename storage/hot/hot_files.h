// The files of a hot directory: <directory>/<2 hex digits>/<64 hex digits of the key>. HotDirectory
// decides which files there are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// A published file that Load found.
struct HotFile {
  Digest key;
  Digest binary;  // content of the stage in the file
  uint64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
};

// A file that no reader sees yet. The destructor removes it unless it was published. Movable.
class UnpublishedHotFile {
 public:
  UnpublishedHotFile(int directory, std::string name)
      : directory_(directory), name_(std::move(name)) {}
  UnpublishedHotFile(UnpublishedHotFile&& other) noexcept
      : directory_(other.directory_), name_(std::exchange(other.name_, {})) {}
  UnpublishedHotFile& operator=(UnpublishedHotFile&&) = delete;
  ~UnpublishedHotFile();

 private:
  friend class HotFiles;
  int directory_;
  std::string name_;  // empty: published
};

// Every call uses descriptors of directories and follows no symbolic link, so it touches nothing
// outside. Files appear by rename and never change, so a reader keeps an open or mapped file that
// is replaced or removed. Files are not synced: after a power failure a partial file fails its
// checksum and is written again.
//
// REQUIRES: one process at a time uses the directory. Errors are those of ErrnoStatus. Thread-safe,
// but two calls for the same key must not overlap. Blocks as the file system does.
class HotFiles {
 public:
  // Creates the directory where it is missing. Its parent must exist. FAILED_PRECONDITION where the
  // path is no directory or belongs to another user.
  static absl::StatusOr<HotFiles> Open(const std::string& path);

  // Published files, oldest first. Removes everything else: unfinished and damaged files, links,
  // other names.
  absl::StatusOr<std::vector<HotFile>> Load();

  absl::StatusOr<UnpublishedHotFile> Write(std::string_view content);
  // Replaces an earlier file of the key.
  absl::Status Publish(UnpublishedHotFile file, const Digest& key);
  // OK where there is no such file.
  absl::Status Remove(const Digest& key);

  // The bytes that this user may still write on the file system.
  absl::StatusOr<uint64_t> FreeBytes() const;

  const std::string& path() const { return path_; }

 private:
  HotFiles(std::string path, UniqueFd directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}

  absl::Status LoadShard(const std::string& shard, std::vector<HotFile>& files);

  std::string path_;
  UniqueFd directory_;
};

}  // namespace kiln
