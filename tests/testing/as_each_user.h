// What has to hold whether or not a process may do everything.
#pragma once

#include <functional>
#include <string>

namespace kiln {

// The user that a root is besides.
inline constexpr unsigned kAnotherUser = 65534;

// Runs `body` in a forked child whose current directory is `directory`, with 24 descriptors, and
// where this process is root once more in a child that is another user. What GoogleTest finds wrong
// in it fails the test. REQUIRES: this process has no threads.
void AsEachUser(const std::string& directory, const std::function<void()>& body);

}  // namespace kiln
