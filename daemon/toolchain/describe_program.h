// Asks a toolchain what it can do.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// The JSON that a worker's program prints to descriptor 3 when `arguments`, its path first, ask it
// to describe a toolchain. It runs with an environment of a few fixed variables, in an empty
// directory of its own inside `work_directory` (the system's place for such where that is ""),
// which is removed afterwards. DEADLINE_EXCEEDED when it takes longer than `time`;
// FAILED_PRECONDITION, with its last words, when it fails, be it that somebody kills it: where
// memory is lacking, it would be killed time and again. Whatever it started is killed when this
// returns, and gone where this process is a child subreaper. Blocks until then, for seconds: it
// compiles a small kernel for every architecture.
absl::StatusOr<std::string> RunDescribe(std::vector<std::string> arguments,
                                        const std::string& work_directory,
                                        std::chrono::milliseconds time);

}  // namespace kiln
