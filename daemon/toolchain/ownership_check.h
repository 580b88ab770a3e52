// Decides whether files may become part of what the daemon runs.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// Whether the error of a look at a path (stat, opendir) says that nothing is there, or nothing that
// this process may see. Every other error says only that the look failed: descriptors or memory are
// lacking, or a disk failed.
bool LeadsToNothing(int error_number);
// UNAVAILABLE, for those other errors.
absl::Status CouldNotLook(int error_number, std::string_view path);

// What `path` leads to through all of its links; "" where it leads to nothing. UNAVAILABLE where it
// cannot be looked at.
absl::StatusOr<std::string> RealPath(const std::string& path);

// The users that may own files, besides root and the daemon's own.
struct FileOwners {
  std::vector<uid_t> further = {};
  // The uid of several users (shared_uid.h). Its files count as the daemon's own only where
  // `further` names it.
  std::optional<uid_t> shared = {};
};

// Whether nobody but its owner can write to a file or a directory, and the owner is trusted. A
// group may write where it is the owner's alone: it has the owner's name, or is root's, and has no
// other members. Systems with private groups (umask 002) make such files.
//
// Access lists (acl(5)) and the links in the middle of a chain of links are not looked at: only a
// trusted owner can have made them
// (docs/adr/0054-toolchains-are-immutable-while-they-are-served.md).
//
// Remembers what it has heard of groups, so each discovery takes a new one. FAILED_PRECONDITION
// says why a path is not trusted and what to do; UNAVAILABLE says that the look failed. Not
// thread-safe. Blocks as a disk does, and as the system's database of groups.
class FileTrust {
 public:
  FileTrust() = default;
  explicit FileTrust(FileOwners owners) : owners_(std::move(owners)) {}

  // `info` is what stat says of `path`.
  absl::Status Check(const std::string& path);
  absl::Status Check(const std::string& path, const struct stat& info);

  // Checks `path`, which lies beneath `root`, each directory from `root` to it, and each directory
  // above what it leads to. A directory outside `root` may be open to all where it has the sticky
  // bit, as /tmp does. The directories above `root` are up to the person who named it.
  absl::Status CheckFrom(const std::string& root, const std::string& path);

 private:
  absl::Status CheckOwner(const std::string& path, const struct stat& info) const;
  absl::Status CheckHolder(const std::string& directory);
  bool MayOwn(uid_t uid) const;
  absl::StatusOr<bool> IsPrivate(gid_t group, uid_t owner);

  FileOwners owners_;
  std::map<std::pair<gid_t, uid_t>, bool> private_groups_;
};

}  // namespace kiln
