// What a process writes to its standard output and error: bounded, in memory, readable at any time.
#pragma once

#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// An anonymous file that cannot grow past limits::kWorkerOutputBytesMax: writes beyond fail in the
// process that tries. Memory is taken for what is written only. Not thread-safe; never blocks.
class OutputCapture {
 public:
  static absl::StatusOr<OutputCapture> Create();

  // To hand to a process as its descriptors 1 and 2. They share the file position with this object.
  int fd() const { return file_.get(); }
  // The end of what was written.
  std::string Tail(size_t bytes_max) const;

 private:
  explicit OutputCapture(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace kiln
