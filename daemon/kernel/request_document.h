// A compile request as text, from which the compile can be repeated. It is the content of
// kRequestStage (storage/artifact_index.h).
#pragma once

#include <string>
#include <string_view>

#include "daemon/kernel/compile_job.h"

namespace kiln {

// One JSON object:
//
//   format       1
//   toolchain    "triton==3.6.0"
//   fingerprint  of the toolchain, 64 hex digits
//   request      a line of a file of requests (docs/cli.md), the source in it
//
// Never fails: text that is not UTF-8 is written with replacement characters.
std::string WriteRequest(const CompileJob& job);

// What the request says beyond defaults, in a few words for a list: constants of the kernel,
// macros, launch parameters, other options: "BLOCK=64 warps=8". Before these, of Triton IR the
// shapes of its two largest tensors: "tiles=128x256,64x256".
std::string ListOptions(const CompileRequest& request);

}  // namespace kiln
