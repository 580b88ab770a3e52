#include "storage/base/users.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>

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

}  // namespace

std::string NameOfUser(uid_t uid) {
  std::vector<char> room;
  const auto user =
      FindEntry<passwd>(room, [uid](auto... out) { return ::getpwuid_r(uid, out...); });
  return user ? user->pw_name : "";
}

std::optional<uid_t> FindUser(const std::string& name_or_number) {
  std::vector<char> room;
  const char* const name = name_or_number.c_str();
  const auto user =
      FindEntry<passwd>(room, [name](auto... out) { return ::getpwnam_r(name, out...); });
  if (user) return user->pw_uid;
  uid_t uid = 0;
  const char* const end = name + name_or_number.size();
  const auto [rest, error] = std::from_chars(name, end, uid);
  // The last number is no uid.
  if (error != std::errc() || rest != end || uid == static_cast<uid_t>(-1)) return std::nullopt;
  return uid;
}

std::optional<UserGroup> FindGroup(gid_t gid) {
  std::vector<char> room;
  const auto entry =
      FindEntry<::group>(room, [gid](auto... out) { return ::getgrgid_r(gid, out...); });
  if (!entry) return std::nullopt;
  UserGroup group{entry->gr_name, {}};
  for (char** member = entry->gr_mem; *member != nullptr; ++member) {
    group.members.emplace_back(*member);
  }
  return group;
}

}  // namespace kiln
