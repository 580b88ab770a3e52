// The files of a hot directory: <directory>/<2 hex digits>/<64 hex digits of the key>, as
// storage/hot/artifact_file.h lays them out. No policy.
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

// A published file as it was found.
struct HotFile {
  Digest key;
  Digest binary;  // content of the stage that it carries
  uint64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
};

// A file that nobody sees yet. Gone when this object goes, unless it was published. Movable.
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

// Every call goes through descriptors of directories and never follows a symbolic link, so nothing
// outside is ever touched. Files appear by rename and are never written in place: whoever has one
// open or mapped is not disturbed by its successor or its removal. They are not synced, since they
// can be made again: what a power failure leaves of them does not match its checksum.
//
// REQUIRES: one process at a time uses the directory. Errors are those of ErrnoStatus. Thread-safe,
// but two calls for the same key must not overlap. Blocks as the file system does.
class HotFiles {
 public:
  // Makes the directory where it is missing; its parent must be there. FAILED_PRECONDITION where
  // something else is in the way, or it belongs to another user.
  static absl::StatusOr<HotFiles> Open(const std::string& path);

  // What is published, oldest first. Removes everything that is not: unfinished and damaged files,
  // links, other names.
  absl::StatusOr<std::vector<HotFile>> Load();

  absl::StatusOr<UnpublishedHotFile> Write(std::string_view content);
  // In place of an earlier file of that key.
  absl::Status Publish(UnpublishedHotFile file, const Digest& key);
  // OK as well where there is none.
  absl::Status Remove(const Digest& key);

  // What this user may still write on that file system.
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
