// The default toolchain that an operator chose while the daemon ran.
#pragma once

#include <string>
#include <utility>

#include "storage/base/filesystem.h"
#include "storage/base/status.h"

namespace kiln {

// One small file with a selector in it, in the daemon's state. Writing is for one thread at a
// time; blocks as a disk does.
class DefaultFile {
 public:
  // The file need not be there; its directory must by the time of Write. `filesystem` outlives it.
  DefaultFile(std::string path, Filesystem& filesystem)
      : path_(std::move(path)), filesystem_(filesystem) {}

  // "" where nothing was chosen. What is no selector is as good as that, with a warning. An error
  // where it could not be read.
  absl::StatusOr<std::string> Read() const;
  // Survives a crash as a whole or not at all. "" takes the choice back.
  absl::Status Write(const std::string& selector);

 private:
  const std::string path_;
  Filesystem& filesystem_;
};

}  // namespace kiln
