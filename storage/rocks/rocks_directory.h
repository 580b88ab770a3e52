// The directory of the store on the disk: whether it is ours, what is in it, whether there is room.
#pragma once

#include <string>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"

namespace kiln {

// Errors: FAILED_PRECONDITION where the directory is no directory, belongs to another user or is in
// use by another process; otherwise as Filesystem.
class RocksDirectory {
 public:
  enum class Content {
    kNothing,
    kDatabase,
    // The remains of a database whose CURRENT is lost. RocksDB would make a new database here and
    // delete the old one's tables as leftovers.
    kRubble,
    // A database whose last log somebody removed (kLogMarker).
    kWithoutLog,
  };

  // Makes `path` where it is missing; its parent must be there. `filesystem` must outlive the
  // directory.
  static absl::StatusOr<RocksDirectory> Prepare(const std::string& path, Filesystem& filesystem);

  // Without links: beside this, not beside a link to it, is where a damaged store is set aside.
  const std::string& path() const { return path_; }

  absl::StatusOr<Content> Look() const;
  // PERMISSION_DENIED where nothing can be written; RESOURCE_EXHAUSTED where there is no room for
  // what opening the store writes.
  absl::Status CheckWritable() const;
  // Renames the directory and makes an empty one in its place; returns the new name of the old.
  absl::StatusOr<std::string> SetAside(const std::string& damage, const Clock& clock) const;

 private:
  RocksDirectory(std::string path, Filesystem& filesystem)
      : path_(std::move(path)), filesystem_(filesystem) {}
  absl::Status TryToWrite() const;

  std::string path_;
  Filesystem& filesystem_;
};

}  // namespace kiln
