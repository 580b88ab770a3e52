// The client's side of the directory where the daemon publishes artifacts as files.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "client/rpc/client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// Files are opened and mapped, never written. What stands in them runs in this process, so nothing
// is taken from a directory that somebody else could have written to; that is looked at once, since
// only its owner can change it. Thread-safe. Blocks for one open and one mmap.
class HotDirectory {
 public:
  HotDirectory(std::string path, std::optional<uid_t> server_uid)
      : path_(std::move(path)), server_uid_(server_uid) {}

  // NOT_FOUND: not published, or there is no hot directory. DATA_LOSS: a file that is not what its
  // checksum says. PERMISSION_DENIED: the directory belongs to somebody who may not serve us, or
  // others may write to it. FAILED_PRECONDITION: published by a newer Kiln.
  [[nodiscard]] absl::StatusOr<HotArtifact> Find(const Digest& key) const;

  const std::string& path() const { return path_; }

 private:
  absl::Status CheckOwner() const;

  const std::string path_;
  const std::optional<uid_t> server_uid_;
  mutable std::atomic<bool> is_trusted_ = false;
};

}  // namespace kiln
