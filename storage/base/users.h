// The system's database of users and groups. UNAVAILABLE where the database does not answer. Blocks
// as the database does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// Stands for the users who share tunings. No user has it.
inline constexpr uid_t kTuningsUid = static_cast<uid_t>(-1);

// "" where no user has that uid.
absl::StatusOr<std::string> NameOfUser(uid_t uid);

// The uid of the user with that name, or else the number itself. NOT_FOUND where the text is
// neither.
absl::StatusOr<uid_t> FindUser(const std::string& name_or_number);

struct UserGroup {
  std::string name;
  std::vector<std::string> members;  // without the users whose primary group it is
};
absl::StatusOr<std::optional<UserGroup>> FindGroup(gid_t gid);

}  // namespace kiln
