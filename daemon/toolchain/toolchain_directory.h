// What on a disk is a toolchain.
#pragma once

#include <string>
#include <system_error>
#include <vector>

#include "daemon/toolchain/ownership_check.h"
#include "storage/base/status.h"

namespace kiln {

// A directory that holds a virtual environment with Triton in it.
struct ToolchainDirectory {
  std::string path;
  std::string interpreter;  // <path>/bin/python
  std::string package;      // <path>/lib/python3.11/site-packages/triton
  std::string python;       // "3.11"
  std::string version;      // of the installed distribution: "3.6.0"; "" where none is recorded
  // Why it cannot be used: FAILED_PRECONDITION, or UNAVAILABLE where that could not be found out.
  // Then it may be any directory, with nothing known of it but its path.
  absl::Status problem = absl::OkStatus();
};

// In the order of `directories`, and within each by name; a directory that two of them lead to
// counts once, by the first way that nothing is to be said against. Each may be a toolchain itself
// or hold some; everything else in them is passed over, and so are names that say an installation
// is not complete. A problem is, too, what `trust` has against the package, the Python, a directory
// above these, pyvenv.cfg, or anything that lies directly in the site-packages, since Python runs
// code there (*.pth) and imports from there. Blocks as a disk does.
std::vector<ToolchainDirectory> FindToolchainDirectories(
    const std::vector<std::string>& directories, FileTrust trust);

// Where a searched directory may hold toolchains: what is in it, sorted, less names that say that
// an installation is not complete. Where it may not be read, a warning. This and the next:
// UNAVAILABLE where it could not be looked at.
absl::StatusOr<std::vector<std::string>> SubdirectoriesToSearch(const std::string& directory);

// <directory>/lib/python3.11/site-packages and its like, sorted.
absl::StatusOr<std::vector<std::string>> SitePackages(const std::string& directory);

// The names of what is in it, sorted; none where it is no directory that may be read, and `error`
// says why. UNAVAILABLE where it could not be looked at.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory,
                                                 std::error_code& error);
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory);

// Whether a file is there; UNAVAILABLE where it could not be looked at.
absl::StatusOr<bool> IsFile(const std::string& path);

}  // namespace kiln
