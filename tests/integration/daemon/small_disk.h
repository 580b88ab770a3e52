// A disk that a test may fill up.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

// A tmpfs of few megabytes over a directory whose files it takes over. It is mounted in a mount
// namespace that this process and those that it starts have for themselves, so that it is gone with
// them, however they end. Not thread-safe; what goes wrong ends the test program.
//
// REQUIRES: threads that are to see it were started after the first of its kind was made.
class SmallDisk {
 public:
  // Why this process cannot mount, for a test to be skipped with; empty: it can.
  static std::string WhyNot();

  // REQUIRES: WhyNot() is empty; `path` is a directory.
  SmallDisk(const std::string& path, uint64_t size_bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Leaves so much free, in whole pages. Call Empty() before the next time.
  void FillUp(uint64_t left_bytes = 0);
  void Empty();
  void MakeReadOnly();

 private:
  const std::string path_;
};

}  // namespace kiln
