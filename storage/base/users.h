// The system's database of users and groups. Blocks as that does; where it is not to be had, it is
// empty.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln {

// "" where nobody has that number.
std::string NameOfUser(uid_t uid);

// Of a user's name, or where nobody is called so, the number that it is.
std::optional<uid_t> FindUser(const std::string& name_or_number);

struct UserGroup {
  std::string name;
  std::vector<std::string> members;  // less those who have it as their first
};
std::optional<UserGroup> FindGroup(gid_t gid);

}  // namespace kiln
