#include "daemon/toolchain/ownership_check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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

// Whether others may add entries, and only their owners take any away.
bool IsSharedDirectory(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0 &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// Both paths must be canonical: no links, no trailing slash.
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
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (!LeadsToNothing(errno)) return CouldNotLook(errno, path);
    return FailedPrecondition("{} cannot be read", path);
  }
  return Check(path, info);
}

absl::Status FileTrust::Check(const std::string& path, const struct stat& info) {
  if ((info.st_mode & S_IWOTH) != 0) {
    return Refuse(path, info, "may be written to by everyone", "take that right away (chmod o-w)");
  }
  KILN_RETURN_IF_ERROR(CheckOwner(path, info));
  if ((info.st_mode & S_IWGRP) == 0) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const bool is_private, IsPrivate(info.st_gid, info.st_uid));
  if (is_private) return absl::OkStatus();
  return Refuse(path, info, fmt::format("may be written to by group {}", info.st_gid),
                "take that right away (chmod g-w)");
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

absl::Status FileTrust::CheckHolder(const std::string& directory) {
  struct stat info {};
  const bool is_shared = ::stat(directory.c_str(), &info) == 0 && IsSharedDirectory(info);
  return is_shared ? CheckOwner(directory, info) : Check(directory);
}

absl::Status FileTrust::CheckFrom(const std::string& root, const std::string& path) {
  const fs::path first = (fs::path(root) / "").parent_path();
  for (fs::path named = path;; named = named.parent_path()) {
    KILN_RETURN_IF_ERROR(Check(named));
    if (named == first || !named.has_relative_path()) break;
  }
  KILN_ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  KILN_ASSIGN_OR_RETURN(const std::string above, RealPath(first.parent_path()));
  fs::path holder = fs::path(real).parent_path();
  for (; !IsAtOrAbove(holder, above); holder = holder.parent_path()) {
    KILN_RETURN_IF_ERROR(CheckHolder(holder));
  }
  return absl::OkStatus();
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
