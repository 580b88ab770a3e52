// Toolchains on disk, as far as a person puts them there and takes them away.
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

// Letters, digits, '.', '_', '+' and '-', the first a letter or a digit; INVALID_ARGUMENT for
// anything else: it becomes part of a path and of a command line.
[[nodiscard]] absl::StatusOr<ToolchainName> ParseToolchainName(std::string_view text);

// Where a new toolchain goes: the first of `searched` that this process may write to, else the
// first that it may make. Those of the system's packages, beneath /usr, are no places for that.
// PERMISSION_DENIED, naming all of them, where there is none.
[[nodiscard]] absl::StatusOr<std::string> ChoosePlace(const std::vector<std::string>& searched);

// Where installations for oneself go: ${XDG_CACHE_HOME:-~/.cache}/kiln/toolchains.
[[nodiscard]] absl::StatusOr<std::string> OwnPlace();

// Makes `place` where it is missing, and in it a link to `directory`, by the name of both. Says in
// `is_new` whether it was not there already. NOT_FOUND where `directory` is none;
// FAILED_PRECONDITION where kilnd would pass over its name; ALREADY_EXISTS where something else has
// that of the link.
[[nodiscard]] absl::StatusOr<std::string> LinkToolchain(const std::string& place,
                                                        const std::string& name,
                                                        const std::string& directory, bool& is_new);

// `installation`, out of the way of whoever looks for toolchains, but not deleted yet. What is
// returned is for DeleteToolchain; "" where it was a link, which is gone then, and nothing that it
// led to. FAILED_PRECONDITION where it does not lie in `place` itself: nothing is touched.
[[nodiscard]] absl::StatusOr<std::string> SetToolchainAside(const std::string& place,
                                                            const std::string& installation);
// Follows no links. OK for "".
[[nodiscard]] absl::Status DeleteToolchain(const std::string& set_aside);

// Runs ../lib/kiln/install-toolchain from this program, its words on standard error, and waits for
// it. The directory that it has made.
[[nodiscard]] absl::StatusOr<std::string> InstallToolchain(const std::string& place,
                                                           const ToolchainName& wanted);

}  // namespace kiln::cli
