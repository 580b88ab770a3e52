// The client's side of the directory where the daemon publishes artifacts as files.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "client/rpc/client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// Files are opened and mapped, never written. Thread-safe: holds no state but the path. Blocks for
// one open and one mmap.
class HotDirectory {
 public:
  HotDirectory(std::string path, std::optional<uid_t> server_uid)
      : path_(std::move(path)), server_uid_(server_uid) {}

  // NOT_FOUND: not published, or there is no hot directory. DATA_LOSS: a file that is not what its
  // checksum says. PERMISSION_DENIED: the file belongs to somebody who may not serve us.
  [[nodiscard]] absl::StatusOr<HotArtifact> Find(const Digest& key) const;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const std::optional<uid_t> server_uid_;
};

}  // namespace kiln
