// The system's database of users and groups. UNAVAILABLE where it cannot be asked. Blocks as it
// does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// "" where nobody has that number.
absl::StatusOr<std::string> NameOfUser(uid_t uid);

// Of a user's name, or where nobody is called so, the number that it is. NOT_FOUND where it is
// neither.
absl::StatusOr<uid_t> FindUser(const std::string& name_or_number);

struct UserGroup {
  std::string name;
  std::vector<std::string> members;  // less those who have it as their first
};
absl::StatusOr<std::optional<UserGroup>> FindGroup(gid_t gid);

}  // namespace kiln
