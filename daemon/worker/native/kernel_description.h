// What a launcher must know of a kernel, out of its PTX and of what ptxas wrote about it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "daemon/kernel/kernel.h"
#include "daemon/worker/native/native_compiler.h"

namespace kiln {

// Functions by the names that a C++ source has for them, with those that they have in the binary.
using LoweredNames = std::map<std::string, std::string>;

// An answer of the outcome kCompiled, without stages and timings, about the entry function `wanted`
// of `ptx`, or the first one where that is "". INVALID_ARGUMENT, in an answer, where there is none.
WorkerReply DescribeKernel(const CompileRequest& request, std::string_view ptx,
                           const std::string& log, const std::string& wanted,
                           const LoweredNames& names = {});

}  // namespace kiln
