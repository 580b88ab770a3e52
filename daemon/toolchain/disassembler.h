// Learns what an nvdisasm is.
#pragma once

#include <memory>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/native_toolchain.h"
#include "daemon/toolchain/toolchain_examiner.h"

namespace kiln {

// As NativeExaminer; `program` is kiln-worker. Its name is "nvdisasm" and its directory the
// program's path; it compiles nothing, so no request can name it. The error says, in a line for
// people, why it cannot be used. Blocks for some milliseconds.
absl::StatusOr<std::shared_ptr<const Toolchain>> ExamineDisassembler(
    const NativeToolchain& found, const DescribeProgram& program);

}  // namespace kiln
