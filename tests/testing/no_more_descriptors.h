// A process that cannot open anything.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kiln {

// While it lives, a process, this one unless another is named, gets no descriptor beyond those that
// it has: a file, a pipe or a socket that it would open fails with EMFILE. What it starts meanwhile
// inherits that.
class NoMoreDescriptors {
 public:
  explicit NoMoreDescriptors(pid_t process = 0) : process_(process) {
    EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, nullptr, &before_), 0);
    // Not 0: poll takes no more entries than there may be descriptors.
    const rlimit none{3, before_.rlim_max};
    EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, &none, nullptr), 0);
  }
  ~NoMoreDescriptors() { EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, &before_, nullptr), 0); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  const pid_t process_;
  rlimit before_{};
};

}  // namespace kiln
