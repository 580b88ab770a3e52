// What a toolchain says of itself.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "daemon/compile/toolchain.h"
#include "storage/base/limits.h"
#include "storage/base/status.h"

namespace kiln {

// Fills name, version, assembler, kinds, backends and hidden pointers of a Toolchain from the JSON
// that triton_worker.py --describe prints. INTERNAL where the JSON is not that.
absl::Status ParseDescription(std::string_view json, Toolchain& toolchain);

// Runs `interpreter` on triton_worker.py (`script`) and gives the JSON that it prints. Blocks for
// seconds: it compiles a small kernel for every architecture. UNAVAILABLE with its last words where
// it fails, DEADLINE_EXCEEDED where it takes longer than `time_max`. `directory` is an empty one
// for its temporary files.
absl::StatusOr<std::string> AskForDescription(
    const std::string& interpreter, const std::string& script, const std::string& directory,
    std::chrono::milliseconds time_max = limits::kToolchainDescribeTime);

}  // namespace kiln
