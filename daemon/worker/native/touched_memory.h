// The memory of a process that its forks will want, got for them ahead of need.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// A fork copies each page when it first writes to it, and has to look up each page of a library
// anew: for NVRTC 3,000 page faults, 5 ms of the first compile. All of it at once takes 3.5 ms, and
// that while the worker waits for something to compile.
class TouchedMemory {
 public:
  // What this process has touched so far. Nothing where the kernel does not tell.
  static TouchedMemory OfThisProcess();

  // In a fork of that process: maps what is of files, and copies the rest, nearly all of which a
  // compiler writes to. In steps of some 20 microseconds, until `is_enough`. What cannot be had
  // comes when it is touched, as ever.
  void TouchAgain(const std::function<bool()>& is_enough) const;

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool is_of_file = false;
  };

  static std::optional<Range> RangeOf(const std::string& line);
  void AddTouched(const Range& mapping, int pagemap);

  std::vector<Range> ranges_;
};

}  // namespace kiln
