// What a SPIR-V module says of its kernels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/worker/native/ptx_text.h"
#include "daemon/worker/native/ptxas_report.h"
#include "storage/base/status.h"

namespace kiln {

struct SpirvKernels {
  // In the order of the module. Types are spelled as docs/kinds.md says: "i32", "*f32",
  // "*local f32", "b8[16]", "image".
  std::vector<PtxEntry> entries;
  // By entry point: the bytes of its variables in local memory, and nothing else.
  std::map<std::string, PtxasUsage> usage;
};

// Reads the instructions that declare: whether the module is valid, spirv-val says. INTERNAL where
// it is cut off or no module. Takes local variables for those of the kernel that they are named
// after, as clang names them ("kernel.tile"): in OpenCL C only kernels declare any.
absl::StatusOr<SpirvKernels> ReadSpirv(std::string_view module);

}  // namespace kiln
