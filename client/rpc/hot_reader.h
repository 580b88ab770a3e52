// The client's side of the directory where the daemon publishes artifacts as files.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/rpc/client.h"
#include "client/rpc/published_toolchains.h"
#include "storage/base/digest.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/hot/artifact_file.h"

namespace kiln {

// Reads or maps files, and never writes them. Their content runs in this process. So the directory
// must belong to root, to this user or to the configured server, and others must not be able to
// write to it. This is checked when the directory is opened. It vouches for the artifacts in it.
//
// The directory stays open. A miss looks whether a new daemon has replaced the directory.
// Thread-safe. Blocks for one open and one read or mmap.
class HotReader {
 public:
  HotReader(std::string path, std::optional<uid_t> server_uid)
      : path_(std::move(path)), own_uid_(::geteuid()), server_uid_(server_uid) {}

  // NOT_FOUND: not published, or there is no hot directory. DATA_LOSS: the checksum of the file is
  // wrong. PERMISSION_DENIED: an untrusted user owns, or others may write to, the directory.
  // FAILED_PRECONDITION: published by a newer Kiln.
  [[nodiscard]] absl::StatusOr<HotArtifact> Find(const Digest& key) const;

  // The stages before the final binary with this digest. Errors as Find; NOT_FOUND also where they
  // are another binary's.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const MappedArtifact>> FindEarlierStages(
      const Digest& key, const Digest& binary) const;

  // What the file beside the artifacts says; read again only when it was replaced. Errors as Find,
  // and INVALID_ARGUMENT where it is not understood. NOT_FOUND holds for 10 ms: a batch that the
  // daemon answers looks once, and not for each request.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const PublishedToolchains>> Toolchains() const;

  const std::string& path() const { return path_; }

 private:
  using Directory = std::shared_ptr<const UniqueFd>;
  // Device, inode, time of change (seconds, nanoseconds) and size of a file.
  using FileVersion = std::array<int64_t, 5>;
  static FileVersion VersionOf(const struct stat& info);

  // What `read` finds in the directory; in a newer one that took its place where it finds nothing.
  template <typename Read>
  auto In(const Read& read) const -> decltype(read(0));
  absl::StatusOr<std::shared_ptr<const PublishedToolchains>> LoadToolchains(int directory) const;

  absl::StatusOr<Directory> Open() const;
  bool IsStillThere(const Directory& directory) const;
  absl::StatusOr<MappedArtifact> Load(int directory, const Digest& key,
                                      std::string_view suffix) const;
  absl::Status CheckOwner(const struct stat& info, const std::string& name) const;

  const std::string path_;
  const uid_t own_uid_;
  const std::optional<uid_t> server_uid_;
  mutable Mutex mutex_;
  mutable Directory directory_ KILN_GUARDED_BY(mutex_);  // null until it is there
  // No look for toolchains before then.
  mutable std::chrono::steady_clock::time_point absent_until_ KILN_GUARDED_BY(mutex_){};
  mutable FileVersion toolchains_version_ KILN_GUARDED_BY(mutex_){};
  mutable std::shared_ptr<const PublishedToolchains> toolchains_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
