#include "daemon/toolchain/trusted_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "storage/base/users.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

bool IsPrivateGroup(gid_t gid, uid_t owner) {
  const auto group = FindGroup(gid);
  const std::string name = NameOfUser(owner);
  // A container may have neither; that nobody else is in it is then all there is to know.
  if (!group) return name.empty() && gid == owner;
  const bool is_owners_alone =
      std::all_of(group->members.begin(), group->members.end(),
                  [&](const std::string& member) { return member == name || member == "root"; });
  return is_owners_alone && (gid == 0 || name == group->name);
}

std::string OwnerOf(const struct stat& info) {
  const std::string name = NameOfUser(info.st_uid);
  return name.empty() ? fmt::format("{}", info.st_uid) : name;
}

std::string RealPath(const std::string& path) {
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  return error ? path : real;
}

}  // namespace

std::string FileTrust::WhyNot(const std::string& path) {
  if (trusted_.count(path) != 0) return "";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fmt::format("{} cannot be read", path);
  std::string why = WhyNot(path, info);
  if (why.empty()) trusted_.insert(path);
  return why;
}

std::string FileTrust::WhyNot(const std::string& path, const struct stat& info) {
  const auto say = [&](std::string_view what, std::string_view remedy) {
    return fmt::format(
        "{} {} (owner {}, mode {:04o}), and what it holds is run with kilnd's rights; {}", path,
        what, OwnerOf(info), info.st_mode & 07777, remedy);
  };
  if ((info.st_mode & S_IWOTH) != 0) {
    return say("may be written to by everyone", "take that right away (chmod o-w)");
  }
  if (!MayOwn(info.st_uid)) {
    return say(fmt::format("belongs to user {}{}", info.st_uid,
                           info.st_uid == owners_.shared
                               ? ", as this user namespace calls every user that it does not map"
                               : ""),
               "only what is root's or kilnd's own is (chown), or of somebody whom "
               "toolchain.trusted_owners names");
  }
  if ((info.st_mode & S_IWGRP) != 0 && !IsPrivate(info.st_gid, info.st_uid)) {
    return say(fmt::format("may be written to by group {}", info.st_gid),
               "take that right away (chmod g-w)");
  }
  return "";
}

std::string FileTrust::WhyNotFrom(const std::string& root, const std::string& path) {
  const fs::path first = (fs::path(root) / "").parent_path();
  const std::string beneath = RealPath(first) + "/";
  for (fs::path named = path;; named = named.parent_path()) {
    if (std::string why = WhyNot(named); !why.empty()) return why;
    if (named == first || !named.has_relative_path()) return "";
    fs::path holder = RealPath(named);
    do {
      holder = holder.parent_path();
      if (std::string why = WhyNot(holder); !why.empty()) return why;
    } while (holder.string().starts_with(beneath));
  }
}

std::string FileTrust::WhyNotLink(const std::string& path) {
  return WhyNot(fs::path(RealPath(path)).parent_path());
}

bool FileTrust::MayOwn(uid_t uid) const {
  const std::vector<uid_t>& further = owners_.further;
  if (std::find(further.begin(), further.end(), uid) != further.end()) return true;
  return uid == 0 || (uid == ::geteuid() && uid != owners_.shared);
}

bool FileTrust::IsPrivate(gid_t group, uid_t owner) {
  const auto known = private_groups_.find({group, owner});
  if (known != private_groups_.end()) return known->second;
  return private_groups_[{group, owner}] = IsPrivateGroup(group, owner);
}

}  // namespace kiln
