// A program that workers run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// Not thread-safe.
class Program {
 public:
  struct Result {
    int wait_status = -1;
    std::string output;       // the end of what it wrote to standard output and error
    uint64_t peak_bytes = 0;  // the most memory that it held
  };

  struct Habits {
    bool finds_files = false;  // with stat
    // LD_LIBRARY_PATH: where its libraries lie. "": where its loader looks by itself.
    std::string libraries = {};
  };

  // `name` is what the program is told that it is called.
  static absl::StatusOr<Program> Open(const std::string& path, std::string name, Habits habits);
  static absl::StatusOr<Program> Open(const std::string& path, std::string name) {
    return Open(path, std::move(name), {});
  }

  // Without links.
  const std::string& Path() const { return path_; }

  // Runs it in the current directory, with nothing to read and no environment but TMPDIR and what
  // its habits say, until it ends. Without that habit it finds no file with stat (RefuseStat). Its
  // output goes through a file of the name
  // `output` there. The error is one of starting it; how it ended is in the result.
  absl::StatusOr<Result> Run(const std::vector<std::string>& arguments,
                             const std::string& output) const;

 private:
  Program(std::string path, std::string name, Habits habits)
      : path_(std::move(path)), name_(std::move(name)), habits_(std::move(habits)) {}

  std::string path_;
  std::string name_;
  Habits habits_;
};

// "13.0.88" of what NVIDIA's tools say with --version, "…release 13.0, V13.0.88…"; "" where there
// is none.
std::string VersionIn(std::string_view text);

}  // namespace kiln
