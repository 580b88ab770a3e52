#include "storage/base/users.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

constexpr size_t kDatabaseEntryBytesMax = 1 << 20;

// Errors by which these functions report that there is no such entry.
bool MeansNone(int error) {
  return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

// 0, or the errno where this process cannot open files. Without descriptors a source of the
// database is skipped, and its entries look absent.
int CannotOpen() {
  const UniqueFd probe(::open("/", O_PATH | O_CLOEXEC));
  return probe ? 0 : errno;
}

// Calls getpwuid_r or a similar function with a growing buffer.
template <typename Entry, typename Find>
absl::StatusOr<std::optional<Entry>> FindEntry(std::vector<char>& room, const Find& find) {
  int error = 0;
  for (room.resize(1024); room.size() <= kDatabaseEntryBytesMax; room.resize(2 * room.size())) {
    Entry entry{};
    Entry* found = nullptr;
    do {
      error = find(&entry, room.data(), room.size(), &found);
    } while (error == EINTR);
    if (error == 0 && found != nullptr) return entry;
    if (MeansNone(error)) error = CannotOpen();
    if (error == 0) return std::nullopt;
    if (error != ERANGE) break;
  }
  return Unavailable("the system's users and groups cannot be looked up: {}", std::strerror(error));
}

}  // namespace

absl::StatusOr<std::string> NameOfUser(uid_t uid) {
  std::vector<char> room;
  KILN_ASSIGN_OR_RETURN(const auto user, FindEntry<passwd>(room, [uid](auto... out) {
                          return ::getpwuid_r(uid, out...);
                        }));
  return user ? user->pw_name : "";
}

absl::StatusOr<uid_t> FindUser(const std::string& name_or_number) {
  std::vector<char> room;
  const char* const name = name_or_number.c_str();
  KILN_ASSIGN_OR_RETURN(const auto user, FindEntry<passwd>(room, [name](auto... out) {
                          return ::getpwnam_r(name, out...);
                        }));
  if (user) return user->pw_uid;
  uid_t uid = 0;
  const char* const end = name + name_or_number.size();
  const auto [rest, error] = std::from_chars(name, end, uid);
  // The highest number is no uid.
  const bool is_number = error == std::errc() && rest == end && uid != static_cast<uid_t>(-1);
  if (is_number) return uid;
  return NotFound("there is no user \"{}\" on this machine", name_or_number);
}

absl::StatusOr<std::optional<UserGroup>> FindGroup(gid_t gid) {
  std::vector<char> room;
  KILN_ASSIGN_OR_RETURN(const auto entry, FindEntry<::group>(room, [gid](auto... out) {
                          return ::getgrgid_r(gid, out...);
                        }));
  if (!entry) return std::nullopt;
  UserGroup group{entry->gr_name, {}};
  for (char** member = entry->gr_mem; *member != nullptr; ++member) {
    group.members.emplace_back(*member);
  }
  return group;
}

}  // namespace kiln
