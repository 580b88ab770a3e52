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

namespace kiln {

// Who may, besides root and the daemon's own user.
struct FileOwners {
  std::vector<uid_t> further = {};
  // It is nobody's own (shared_uid.h), so only `further` lets it.
  std::optional<uid_t> shared = {};
};

// Whether what is at a path, a file or a directory, may decide what the daemon runs: nobody but its
// owners may be able to write to it. A group may where it is the owner's alone, as a
// system with user private groups (umask 002) makes them: of the owner's name, or root's, and with
// no other members.
//
// Remembers what it has seen, so each look at a toolchain takes a new one. Not thread-safe. Blocks
// as a disk does, and as the system's database of groups.
class FileTrust {
 public:
  FileTrust() = default;
  explicit FileTrust(FileOwners owners) : owners_(std::move(owners)) {}

  const FileOwners& owners() const { return owners_; }

  // Why not, with what to do; "" where it may. The second of what stat says of it.
  std::string WhyNot(const std::string& path);
  std::string WhyNot(const std::string& path, const struct stat& info);

  // Of `path`, which lies beneath `root`, and of each directory by which whoever may write to it
  // could put another in its place: those from `root` on, and where a link leads elsewhere, the
  // one that holds what it leads to. What is above `root` is up to whoever named that.
  std::string WhyNotFrom(const std::string& root, const std::string& path);

  // Of the directory that holds what the link at `path` leads to.
  std::string WhyNotLink(const std::string& path);

 private:
  bool MayOwn(uid_t uid) const;
  bool IsPrivate(gid_t group, uid_t owner);

  FileOwners owners_;
  std::map<std::pair<gid_t, uid_t>, bool> private_groups_;
  std::set<std::string> trusted_;
};

}  // namespace kiln
