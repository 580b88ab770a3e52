// Installs a toolchain where a daemon looks for toolchains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace kiln::cli {

// "triton==3.7.1"; the version may be missing.
struct ToolchainName {
  std::string name;
  std::string version;
};

// Letters, digits, '.', '_', '+' and '-', the first a letter or a digit. INVALID_ARGUMENT for
// anything else: it becomes part of a path and of a command line.
[[nodiscard]] absl::StatusOr<ToolchainName> ParseToolchainName(std::string_view text);

// Where a new toolchain goes: the first of `searched` that this process may write to, else the
// first that it may make. Directories beneath /usr belong to the system's packages and are left
// out. PERMISSION_DENIED, naming all of them, where there is none.
[[nodiscard]] absl::StatusOr<std::string> ChoosePlace(const std::vector<std::string>& searched);

// Runs ../lib/kiln/install-toolchain from this program, its words on standard error, and waits for
// it. Returns the directory that it has made.
[[nodiscard]] absl::StatusOr<std::string> InstallToolchain(const std::string& place,
                                                           const ToolchainName& wanted);

}  // namespace kiln::cli
