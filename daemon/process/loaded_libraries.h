// What the system's loader loads for a program.
#pragma once

#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// What an ELF program names as its loader, such as /lib64/ld-linux-x86-64.so.2; "" where it names
// none.
std::string LoaderOf(const std::string& program);

// The libraries that a start of `program` loads, as the loader names them, and the loader itself;
// without what a program opens later by itself. Neither the loader's cache nor the environment has
// a say, so that what is found is found in a jail as well. FAILED_PRECONDITION with the loader's
// words where one of them is missing. Runs the loader: blocks for some milliseconds.
absl::StatusOr<std::vector<std::string>> LibrariesOf(const std::string& program);

}  // namespace kiln
