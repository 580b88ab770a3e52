// Whom root has this machine's service run as.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

namespace kiln {

// The owner of `directory`, if root alone can have decided that: the directory above it is root's,
// and nobody else may write there. None also where the owner is nobody in particular (65534, for
// every user whom this user namespace does not map). Blocks as a file system in memory does.
inline std::optional<uid_t> ServiceUid(const std::string& directory = "/run/kiln") {
  constexpr uid_t kOverflowUid = 65534;
  struct stat parent {
  }, found{};
  const std::string above = directory.substr(0, directory.rfind('/'));
  if (::lstat(above.c_str(), &parent) != 0 || ::lstat(directory.c_str(), &found) != 0) return {};
  const bool is_roots =
      S_ISDIR(parent.st_mode) && parent.st_uid == 0 && (parent.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!is_roots || !S_ISDIR(found.st_mode) || found.st_uid == kOverflowUid) return {};
  return found.st_uid;
}

}  // namespace kiln
