// Large pages, of two megabytes, for what a fork of a zygote would otherwise map and copy a small
// page at a time (docs/adr/0068-forks-find-libtriton-and-a-heap-in-large-pages.md).
#pragma once

#include <string>

namespace kiln {

// Moves code and constants of a library that this process has loaded into large pages, which its
// forks share. Where the kernel has none, or does not let, the library stays where it is. REQUIRES:
// a single thread, which does not run the library.
void MoveToLargePages(const std::string& library);

// An arena of jemalloc's that nothing is allocated from yet, made in a zygote. What its forks
// allocate lies in large pages of their own, and not among what they would first have to copy. Does
// nothing with another malloc.
class FreshHeap {
 public:
  FreshHeap();

  // In a fork: allocates from here, from now on.
  void Enter() const;

 private:
  unsigned arena_ = 0;  // 0: none
};

}  // namespace kiln
