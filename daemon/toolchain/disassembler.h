// The nvdisasm that this daemon disassembles with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/compile/toolchain.h"

namespace kiln {

// The one of the highest version in `directories`, which knows the most architectures; null where
// none is there that works. Its name is "nvdisasm", its directory the program's path; it compiles
// nothing, so no request can name it. `native_worker` is asked for each one's version, in a
// directory inside `work_directory`. Blocks for some milliseconds for each.
std::shared_ptr<const Toolchain> FindDisassembler(const std::vector<std::string>& directories,
                                                  const std::string& native_worker,
                                                  const std::string& work_directory);

}  // namespace kiln
