// What clang, llvm-spirv and spirv-val say of a source that they refuse.
#pragma once

#include <string>
#include <string_view>

#include "daemon/kernel/kernel.h"

namespace kiln {

// Why clang refused it: "kernel.cl:12:5: error: …", the first that is no warning. INTERNAL and not
// deterministic, with `otherwise` as the message, where nothing in the log says that the source is
// at fault.
CompileFailure ReadClangFailure(std::string_view log, std::string_view otherwise);

// Why `program`, one of the other two, ended with `wait_status` when it was given what clang had
// made of the source, likewise.
CompileFailure ReadSpirvFailure(std::string_view program, int wait_status, std::string_view log,
                                std::string_view otherwise);

}  // namespace kiln
