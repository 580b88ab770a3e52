// A program that workers run, held open.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// What was opened is what runs: another file that takes its place under the same path is not
// noticed, and not run either. Not thread-safe.
class Program {
 public:
  struct Result {
    int wait_status = -1;
    std::string output;       // the end of what it wrote to standard output and error
    uint64_t peak_bytes = 0;  // the most memory that it held
  };

  // `name` is what the program is told that it is called.
  static absl::StatusOr<Program> Open(const std::string& path, std::string name);

  // Where it lies now, as the kernel has it: without links.
  std::string Path() const;

  // Runs it in the current directory, with nothing to read, no environment but TMPDIR and no right
  // to set times of files, until it ends. Its output goes through a file of the name `output`
  // there. The error is one of starting it; how it ended is in the result.
  absl::StatusOr<Result> Run(const std::vector<std::string>& arguments,
                             const std::string& output) const;

 private:
  Program(UniqueFd file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  UniqueFd file_;
  std::string name_;
};

// Sets the times of a file of this process's own. It opens the file, as a jail allows no other way.
absl::Status SetTimesToZero(const std::string& name);

// "13.0.88" of what NVIDIA's tools say with --version, "…release 13.0, V13.0.88…"; "" where there
// is none.
std::string VersionIn(std::string_view text);

}  // namespace kiln
