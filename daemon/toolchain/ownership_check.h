// Whose files are run with the daemon's rights.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// Whether the error of a look at a path (stat, opendir) says that nothing is there, or nothing that
// this process may see. Any other says only that it could not look: it lacks descriptors or memory,
// or a disk failed.
bool LeadsToNothing(int error_number);
// For those others: UNAVAILABLE.
absl::Status CouldNotLook(int error_number, std::string_view path);

// Where `path` leads to by all of its links; "" where that is nothing. UNAVAILABLE where it could
// not be looked at.
absl::StatusOr<std::string> RealPath(const std::string& path);

// Who may, besides root and the daemon's own user.
struct FileOwners {
  std::vector<uid_t> further = {};
  // It is nobody's own (shared_uid.h), so only `further` lets it.
  std::optional<uid_t> shared = {};
};

// Whether what is at a path, a file or a directory, may decide what the daemon runs: nobody but its
// owners may be able to write to it. A group may where it is the owner's alone, as a
// system with user private groups (umask 002) makes them: of the owner's name, or root's, and with
// no other members, and where it is all that it seems: with an access list (acl(5)), those bits
// say what anybody may be given by that.
//
// Remembers what it has seen, so each look at a toolchain takes a new one. FAILED_PRECONDITION says
// why not, with what to do; UNAVAILABLE that it could not look. Not thread-safe. Blocks as a disk
// does, and as the system's database of groups.
class FileTrust {
 public:
  FileTrust() = default;
  explicit FileTrust(FileOwners owners) : owners_(std::move(owners)) {}

  const FileOwners& owners() const { return owners_; }

  // The second of what stat says of it.
  absl::Status Check(const std::string& path);
  absl::Status Check(const std::string& path, const struct stat& info);

  // Of `path`, which lies beneath `root`, and of each directory by which whoever may write to it
  // could put another in its place: those from `root` on, and where a link leads elsewhere, all
  // above what it leads to, link by link. Those outside may be open to all where nobody can take
  // another's place in them, as /tmp is. What is above `root` is up to whoever named that.
  absl::Status CheckFrom(const std::string& root, const std::string& path);

  // Likewise of what a file of the toolchain names by its whole path, be it nothing yet: where it
  // lies elsewhere than beneath `root`, of every directory above it.
  absl::Status CheckNamed(const std::string& root, const std::string& path);

  // Likewise where `path` may be a link, of the directory that it lies in and of what the link
  // leads through; not of what it leads to, which need not be there: then nobody else may be able
  // to put anything there.
  absl::Status CheckLink(const std::string& path);

  // Of a directory with nothing but `entry` in mind, of which `info` is what lstat says; null where
  // it is not there.
  absl::Status CheckHolder(const std::string& holder, const std::string& entry,
                           const struct stat* info);

 private:
  absl::Status CheckOwner(const std::string& path, const struct stat& info) const;
  // Of each directory on the way from one to what `path`, relative to it, leads to.
  absl::Status CheckWay(const std::string& from, const std::string& path);
  bool MayOwn(uid_t uid) const;
  absl::StatusOr<bool> IsPrivate(gid_t group, uid_t owner);

  FileOwners owners_;
  std::map<std::pair<gid_t, uid_t>, bool> private_groups_;
  std::set<std::string> trusted_;
};

}  // namespace kiln
