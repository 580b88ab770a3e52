#include "daemon/worker/work_directory.h"

#include "storage/base/filesystem.h"

namespace kiln {

absl::Status MakeEmptyDirectory(const std::string& path) {
  Filesystem& filesystem = OsFilesystem();
  KILN_RETURN_IF_ERROR(filesystem.MakeDirectory(path, 0700));
  KILN_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, filesystem.List(path));
  for (const DirectoryEntry& entry : entries) {
    const std::string child = path + "/" + entry.name;
    KILN_RETURN_IF_ERROR(entry.kind == DirectoryEntry::Kind::kDirectory
                             ? filesystem.RemoveTree(child)
                             : filesystem.Remove(child));
  }
  return absl::OkStatus();
}

absl::Status RestoreDirectory(const std::string& path) {
  absl::Status made = OsFilesystem().MakeDirectory(path, 0700);
  const size_t slash = path.find_last_of('/');
  if (!absl::IsNotFound(made) || slash == 0 || slash == std::string::npos) return made;
  KILN_RETURN_IF_ERROR(RestoreDirectory(path.substr(0, slash)));
  return OsFilesystem().MakeDirectory(path, 0700);
}

}  // namespace kiln
