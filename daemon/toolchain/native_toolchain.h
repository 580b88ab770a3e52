// Which files on a disk are compilers that kiln-worker runs.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// One ptxas.
struct NativeToolchain {
  std::string name;     // "ptxas"
  std::string path;     // of the program
  std::string problem;  // why it cannot be used, or ""
};

// In the order of `directories`, and within each by name. Each may hold such a file itself, or have
// subdirectories that do; everything else in them is passed over. A file that two paths lead to
// counts once. Where they are looked for: docs/toolchains.md. Blocks as a disk does.
std::vector<NativeToolchain> FindNativeToolchains(const std::vector<std::string>& directories);

}  // namespace kiln
