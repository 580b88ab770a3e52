// What a launcher must know of a kernel, out of its PTX and of what ptxas wrote about it, or out of
// its SPIR-V.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/worker/native/native_compiler.h"
#include "daemon/worker/native/ptx_text.h"
#include "daemon/worker/native/ptxas_report.h"

namespace kiln {

// The binary's names of functions, which NVRTC calls lowered (mangled), by their names in C++.
using LoweredNames = std::map<std::string, std::string>;

// An answer of the outcome kCompiled, without stages and timings, about the entry function `wanted`
// of `ptx`, or the first one where that is "". INVALID_ARGUMENT, in an answer, where there is none.
WorkerReply DescribeKernel(const CompileRequest& request, std::string_view ptx,
                           const std::string& log, const std::string& wanted,
                           const LoweredNames& names = {});

// The same, of kernels that are known already, with what else goes into the toolchain's metadata,
// an object. `usage` is by kernel.
WorkerReply DescribeKernel(const CompileRequest& request, std::vector<PtxEntry> entries,
                           const std::map<std::string, PtxasUsage>& usage,
                           const std::string& wanted, const std::string& log, nlohmann::json more);

// The name of a kernel that the option `entry` asks for, or "".
std::string WantedEntry(const Options& options);

}  // namespace kiln
