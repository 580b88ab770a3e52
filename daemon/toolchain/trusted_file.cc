#include "daemon/toolchain/trusted_file.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <vector>

namespace kiln {
namespace {

constexpr size_t kDatabaseEntryBytesMax = 1 << 20;

// Calls one of the functions that want room for what they find, with ever more of it.
template <typename Entry, typename Find>
std::optional<Entry> FindEntry(std::vector<char>& room, const Find& find) {
  for (room.resize(1024); room.size() <= kDatabaseEntryBytesMax; room.resize(2 * room.size())) {
    Entry entry{};
    Entry* found = nullptr;
    const int error = find(&entry, room.data(), room.size(), &found);
    if (error == 0 && found != nullptr) return entry;
    if (error != ERANGE) break;
  }
  return std::nullopt;
}

// "" where nobody has that number.
std::string NameOfUser(uid_t uid) {
  std::vector<char> room;
  const auto user =
      FindEntry<passwd>(room, [uid](auto... out) { return ::getpwuid_r(uid, out...); });
  return user ? user->pw_name : "";
}

bool IsPrivateGroup(gid_t gid, uid_t owner) {
  std::vector<char> room;
  const auto group =
      FindEntry<::group>(room, [gid](auto... out) { return ::getgrgid_r(gid, out...); });
  const std::string name = NameOfUser(owner);
  // A container may have neither; that nobody else is in it is then all there is to know.
  if (!group) return name.empty() && gid == owner;
  for (char** member = group->gr_mem; *member != nullptr; ++member) {
    if (name != *member && std::string("root") != *member) return false;
  }
  return gid == 0 || name == group->gr_name;
}

}  // namespace

std::string WhyNotTrusted(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "it cannot be read";
  const auto say = [&path](std::string_view what, std::string_view remedy) {
    return fmt::format("{} {}, and what it holds is run with kilnd's rights; {}", path, what,
                       remedy);
  };
  if ((info.st_mode & S_IWOTH) != 0) {
    return say("may be written to by everyone", "take that right away (chmod o-w)");
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return say(fmt::format("belongs to user {}", info.st_uid),
               "only what is root's or kilnd's own is (chown)");
  }
  if ((info.st_mode & S_IWGRP) != 0 && !IsPrivateGroup(info.st_gid, info.st_uid)) {
    return say(fmt::format("may be written to by group {}", info.st_gid),
               "take that right away (chmod g-w)");
  }
  return "";
}

}  // namespace kiln
