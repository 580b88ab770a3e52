// Finds directories that look like toolchains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/toolchain/ownership_check.h"
#include "storage/base/status.h"

namespace kiln {

inline constexpr std::string_view kTriton = "triton";
inline constexpr std::string_view kPtxas = "ptxas";
inline constexpr std::string_view kNvrtc = "nvrtc";
inline constexpr std::string_view kClang = "clang";

// Where the distribution installs its packages.
inline constexpr std::string_view kDistribution = "/usr";

// A virtual environment with Triton in it, a ptxas, an NVRTC, or a clang with what makes SPIR-V.
struct FoundToolchain {
  std::string name;  // kTriton, kPtxas, kNvrtc or kClang; "" where it could not be looked at
  std::string path;  // the virtual environment, the ptxas, libnvrtc.so, clang-15
  std::string installation;  // the searched directory, or the one inside it, that holds it
  // Why it cannot be used: FAILED_PRECONDITION, or UNAVAILABLE where that could not be found out.
  // Where the name is "", the installation may be any directory.
  absl::Status problem = absl::OkStatus();

  // Triton only:
  std::string interpreter = {};  // <path>/bin/python
  std::string package = {};      // <path>/lib/python3.11/site-packages/triton
  std::string python = {};       // "3.11"
  std::string version = {};      // of the installed distribution; "" where none is recorded
  // NVRTC and clang only. Files that it needs beside it, and that decide as well: of a clang the
  // other programs too.
  std::vector<std::string> libraries = {};
  std::vector<std::string> includes = {};  // directories whose headers a source may include
};

// In the order of `directories`, and within each by name. Each may hold toolchains itself, or have
// subdirectories that do; everything else in them is passed over, and so are names that say that an
// installation is not complete. Of kDistribution only what makes SPIR-V counts: what else lies
// there is made for no daemon. Where toolchains are looked for: docs/toolchains.md. A toolchain
// that two paths lead to counts once, by the first path that nothing is to be said against.
//
// A problem is, too, what `trust` has against a file or a directory above it: a Triton's package
// and Python, pyvenv.cfg, and all that lies directly in its site-packages, since Python runs code
// there (*.pth) and imports from there; a ptxas; an NVRTC or a clang, its libraries and header
// directories. Not looked at are the files in the package and the headers (toolchain_files.h).
// Blocks as a disk does.
std::vector<FoundToolchain> FindToolchains(const std::vector<std::string>& directories,
                                           FileTrust trust);

}  // namespace kiln
