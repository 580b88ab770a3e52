// What kilnd looks for in a directory, as far as a person who adds one is told of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace kiln::cli {

// The files of `name` (triton, nvrtc, ptxas) relative to an installation, as glob(7) patterns:
// one that is there makes the directory one that has it. Those of kilnd's own search; a test holds
// the two against each other.
[[nodiscard]] const std::vector<std::string>& SoughtFiles(std::string_view name);

// OK where `directory` has one of these files. NOT_FOUND otherwise, which says what was looked for
// and what to do, be the directory empty, a file, or none. Opens nothing: whether what is there
// works, the daemon finds out.
[[nodiscard]] absl::Status CheckHolds(const std::string& directory, std::string_view name);

}  // namespace kiln::cli
