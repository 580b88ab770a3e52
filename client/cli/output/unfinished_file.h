// A file that appears whole under its name, or not at all.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {

// For a file that a person names: what a symbolic link names, otherwise the path itself.
[[nodiscard]] std::string FollowLinks(const std::string& path);

// Has no name until Finish, so that nothing of it outlives this process, however that ends. On a
// file system without such files it has another name beside its own, which the destructor removes.
// Replaces a symbolic link itself. INVALID_ARGUMENT for a device, a pipe or a socket. Other errors
// are those of the system, with the path in front. Not thread-safe; blocks as
// a disk does.
class UnfinishedFile {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<UnfinishedFile>> Create(std::string path,
                                                                              mode_t mode);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] absl::Status Write(std::string_view bytes);
  // Waits until the disk has what was written: for files that take long to make again.
  [[nodiscard]] absl::Status Sync();
  // Replaces what has its name. REQUIRES: called once, as the last call.
  [[nodiscard]] absl::Status Finish();

  uint64_t bytes() const { return bytes_; }  // written so far
  // A path to read back what was written so far. Valid while this object lives.
  std::string unfinished_path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

 private:
  explicit UnfinishedFile(std::string path);
  absl::Status Open(mode_t mode);

  const std::string path_;
  const std::string other_name_;
  bool has_other_name_ = false;
  UniqueFd file_;
  uint64_t bytes_ = 0;
};

}  // namespace kiln::cli
