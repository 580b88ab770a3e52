// Which files on a disk are compilers that kiln-worker runs.
#pragma once

#include <string>
#include <vector>

#include "daemon/toolchain/ownership_check.h"
#include "storage/base/status.h"

namespace kiln {

// One ptxas, or one NVRTC.
struct NativeToolchain {
  std::string name;                    // "ptxas", "nvrtc"
  std::string path;                    // of the program, or of libnvrtc.so
  std::vector<std::string> libraries;  // that it needs beside it, and that decide as well
  std::vector<std::string> includes;   // directories whose headers a source may include
  absl::Status problem;                // why it cannot be used, as ToolchainDirectory has it
  std::string installation = {};       // of `directories`, or inside one, that it was found in
};

// In the order of `directories`, and within each by name. Each may hold such files itself, or have
// subdirectories that do; everything else in them is passed over. A file that two paths lead to
// counts once, by the first that nothing is to be said against. Where they are looked for:
// docs/toolchains.md. A problem is, too, what `trust` has against the file, its libraries, or a
// directory above these or the headers. Blocks as a disk does.
std::vector<NativeToolchain> FindNativeToolchains(const std::vector<std::string>& directories,
                                                  FileTrust trust);

}  // namespace kiln
