// One daemon per state directory.
#pragma once

#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// A lock on a file, held as long as this object lives and released by the kernel with the process,
// however that ends. The file stays.
class StateLock {
 public:
  // ALREADY_EXISTS, naming the process, where another one holds it. Otherwise why the file cannot
  // be made.
  static absl::StatusOr<StateLock> Take(const std::string& path);

 private:
  explicit StateLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace kiln
