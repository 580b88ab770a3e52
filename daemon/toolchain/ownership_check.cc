#include "daemon/toolchain/ownership_check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "daemon/toolchain/path_walk.h"
#include "storage/base/users.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<bool> IsPrivateGroup(gid_t gid, uid_t owner) {
  KILN_ASSIGN_OR_RETURN(const auto group, FindGroup(gid));
  KILN_ASSIGN_OR_RETURN(const std::string name, NameOfUser(owner));
  // A container may have neither; that nobody else is in it is then all there is to know.
  if (!group) return name.empty() && gid == owner;
  const bool is_owners_alone =
      std::all_of(group->members.begin(), group->members.end(),
                  [&](const std::string& member) { return member == name || member == "root"; });
  return is_owners_alone && (gid == 0 || name == group->name);
}

std::string OwnerOf(const struct stat& info) {
  const std::string name = NameOfUser(info.st_uid).value_or("");
  return name.empty() ? fmt::format("{}", info.st_uid) : name;
}

absl::Status Refuse(const std::string& path, const struct stat& info, std::string_view what,
                    std::string_view remedy) {
  return FailedPrecondition(
      "{} {} (owner {}, mode {:04o}), and what it holds is run with kilnd's rights; {}", path, what,
      OwnerOf(info), info.st_mode & 07777, remedy);
}

// A file system that knows of none says that it does not support the attribute.
absl::StatusOr<bool> HasAccessList(const std::string& path) {
  const ssize_t bytes = ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0);
  if (bytes >= 0) return bytes > 0;
  if (errno == ENODATA || errno == EOPNOTSUPP) return false;
  return CouldNotLook(errno, path);
}

// Whether others may add entries, and only their owners take any away.
bool IsSharedDirectory(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0 &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// Of two without links or trailing slashes.
bool IsAtOrAbove(const std::string& directory, const std::string& path) {
  return directory == "/" || directory == path || path.starts_with(directory + "/");
}

}  // namespace

bool LeadsToNothing(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP ||
         error_number == EACCES || error_number == ENAMETOOLONG;
}

absl::Status CouldNotLook(int error_number, std::string_view path) {
  return Unavailable("{} cannot be looked at ({}); it is tried again soon", path,
                     std::strerror(error_number));
}

absl::StatusOr<std::string> RealPath(const std::string& path) {
  char real[PATH_MAX];
  if (::realpath(path.c_str(), real) != nullptr) return std::string(real);
  if (LeadsToNothing(errno)) return "";
  return CouldNotLook(errno, path);
}

absl::Status FileTrust::Check(const std::string& path) {
  if (trusted_.count(path) != 0) return absl::OkStatus();
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (!LeadsToNothing(errno)) return CouldNotLook(errno, path);
    return FailedPrecondition("{} cannot be read", path);
  }
  KILN_RETURN_IF_ERROR(Check(path, info));
  trusted_.insert(path);
  return absl::OkStatus();
}

absl::Status FileTrust::Check(const std::string& path, const struct stat& info) {
  if ((info.st_mode & S_IWOTH) != 0) {
    return Refuse(path, info, "may be written to by everyone", "take that right away (chmod o-w)");
  }
  KILN_RETURN_IF_ERROR(CheckOwner(path, info));
  if ((info.st_mode & S_IWGRP) == 0) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const bool is_private, IsPrivate(info.st_gid, info.st_uid));
  if (!is_private) {
    return Refuse(path, info, fmt::format("may be written to by group {}", info.st_gid),
                  "take that right away (chmod g-w)");
  }
  KILN_ASSIGN_OR_RETURN(const bool has_access_list, HasAccessList(path));
  if (has_access_list) {
    return Refuse(path, info, "has an access list", "take that away (setfacl -b)");
  }
  return absl::OkStatus();
}

absl::Status FileTrust::CheckOwner(const std::string& path, const struct stat& info) const {
  if (MayOwn(info.st_uid)) return absl::OkStatus();
  const bool is_shared = info.st_uid == owners_.shared;
  return Refuse(
      path, info,
      fmt::format(
          "belongs to user {}{}", info.st_uid,
          is_shared ? ", as this user namespace calls every user that it does not map" : ""),
      "only what is root's or kilnd's own is (chown), or of somebody whom "
      "toolchain.trusted_owners names");
}

absl::Status FileTrust::CheckHolder(const std::string& holder, const std::string& entry,
                                    const struct stat* info) {
  struct stat held_by {};
  const bool is_shared =
      ::lstat(holder.c_str(), &held_by) == 0 && IsSharedDirectory(held_by);  // else Check says why
  if (!is_shared) return Check(holder);
  KILN_RETURN_IF_ERROR(CheckOwner(holder, held_by));
  if (info != nullptr) return CheckOwner(entry, *info);
  return FailedPrecondition(
      "{} is not there, and in {} anybody could put something in its place, which is run with "
      "kilnd's rights; take away what leads there",
      entry, holder);
}

absl::Status FileTrust::CheckWay(const std::string& from, const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string above, RealPath(from));
  if (above.empty()) return FailedPrecondition("{} cannot be read", from);
  return WalkPath(above, path,
                  [&](const std::string& holder, const std::string& entry,
                      const struct stat* info) -> absl::Status {
                    if (IsAtOrAbove(holder, above)) return absl::OkStatus();
                    return CheckHolder(holder, entry, info);
                  });
}

absl::Status FileTrust::CheckFrom(const std::string& root, const std::string& path) {
  const fs::path first = (fs::path(root) / "").parent_path();
  for (fs::path named = path;; named = named.parent_path()) {
    KILN_RETURN_IF_ERROR(Check(named));
    if (named == first || !named.has_relative_path()) break;
  }
  const fs::path above = first.parent_path();
  return CheckWay(above, fs::path(path).lexically_relative(above));
}

absl::Status FileTrust::CheckNamed(const std::string& root, const std::string& path) {
  const fs::path first = (fs::path(root) / "").parent_path();
  const bool is_beneath = IsAtOrAbove(first, path);
  struct stat info {};
  const bool is_there = ::stat(path.c_str(), &info) == 0 || !LeadsToNothing(errno);
  if (is_there && is_beneath) return CheckFrom(root, path);
  if (is_there) KILN_RETURN_IF_ERROR(Check(path));
  const fs::path above = is_beneath ? first.parent_path() : fs::path("/");
  return CheckWay(above, fs::path(path).lexically_relative(above));
}

absl::Status FileTrust::CheckLink(const std::string& path) {
  const fs::path holder = fs::path(path).parent_path();
  const fs::path above = holder.parent_path();
  return CheckWay(above, fs::path(path).lexically_relative(above));
}

bool FileTrust::MayOwn(uid_t uid) const {
  const std::vector<uid_t>& further = owners_.further;
  if (std::find(further.begin(), further.end(), uid) != further.end()) return true;
  return uid == 0 || (uid == ::geteuid() && uid != owners_.shared);
}

absl::StatusOr<bool> FileTrust::IsPrivate(gid_t group, uid_t owner) {
  const auto known = private_groups_.find({group, owner});
  if (known != private_groups_.end()) return known->second;
  KILN_ASSIGN_OR_RETURN(const bool is_private, IsPrivateGroup(group, owner));
  return private_groups_[{group, owner}] = is_private;
}

}  // namespace kiln
