// The few calls that storage makes to the file system, injected so that unit tests can have a full
// or broken disk. RocksDB has its own access.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

struct DirectoryEntry {
  // A symbolic link is kOther.
  enum class Kind { kFile, kDirectory, kOther };

  std::string name;
  Kind kind = Kind::kOther;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970
};

// Errors are those of ErrnoStatus, with the path in front: NOT_FOUND, ALREADY_EXISTS,
// PERMISSION_DENIED (also a read-only file system), RESOURCE_EXHAUSTED (no space, quota,
// descriptors), INTERNAL. No call follows a symbolic link in the last component of a path.
// Thread-safe. Blocks as a disk does.
class Filesystem {
 public:
  virtual ~Filesystem() = default;

  // The bytes that this user may still write on the file system that holds `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;
  // OK where the directory exists already.
  virtual absl::Status MakeDirectory(const std::string& path, mode_t mode) = 0;
  // Without "." and "..", in no particular order.
  virtual absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) = 0;
  // The content of a regular file or of a kernel file (/proc, /sys).
  virtual absl::StatusOr<std::string> Read(const std::string& path, uint64_t size_bytes_max) = 0;
  // Creates a file. ALREADY_EXISTS where there is one. Leaves no file behind where it fails.
  virtual absl::Status WriteNew(const std::string& path, std::string_view content, mode_t mode) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A file or a symbolic link.
  virtual absl::Status Remove(const std::string& path) = 0;
};

// The operating system's. Never destroyed.
Filesystem& OsFilesystem();

}  // namespace kiln
