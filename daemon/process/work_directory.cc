#include "daemon/process/work_directory.h"

#include <unistd.h>

#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/base/remove_tree.h"

namespace kiln {
namespace {

absl::Status SetAside(const std::string& path) {
  for (int number = 0; number < limits::kDirectoriesAsideMax; ++number) {
    const std::string aside = fmt::format("{}.aside-{}", path, number);
    // A rename would replace an empty one, which is as well.
    if (const absl::Status renamed = OsFilesystem().Rename(path, aside); renamed.ok()) {
      return absl::OkStatus();
    }
  }
  return Internal("{} could not be set aside", path);
}

absl::Status EmptyDirectory(const std::string& path) {
  Filesystem& filesystem = OsFilesystem();
  KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, 0700));
  KILN_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, filesystem.List(path));
  absl::Status emptied;
  for (const DirectoryEntry& entry : entries) {
    emptied.Update(RemoveTree(path + "/" + entry.name));
  }
  return emptied;
}

}  // namespace

absl::Status MakeEmptyDirectory(const std::string& path) {
  absl::Status emptied = EmptyDirectory(path);
  // Where there is none and none can be made, setting it aside does not help.
  if (emptied.ok() || ::access(path.c_str(), F_OK) != 0) return emptied;
  // It passes, and what is set aside stays.
  if (absl::IsResourceExhausted(emptied)) return emptied;
  if (!SetAside(path).ok()) return emptied;
  LogError("directory set aside since it could not be emptied",
           {{"path", path}, {"error", Message(emptied)}});
  return OsFilesystem().MakeDirectory(path, 0700);
}

absl::Status RestoreDirectory(const std::string& path) {
  absl::Status made = OsFilesystem().MakeDirectory(path, 0700);
  const size_t slash = path.find_last_of('/');
  if (!absl::IsNotFound(made) || slash == 0 || slash == std::string::npos) return made;
  KILN_RETURN_IF_ERROR(RestoreDirectory(path.substr(0, slash)));
  return OsFilesystem().MakeDirectory(path, 0700);
}

}  // namespace kiln
