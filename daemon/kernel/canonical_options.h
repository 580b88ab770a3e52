// Launch parameters and options against what a toolchain declares.
#pragma once

#include "daemon/kernel/kernel.h"
#include "daemon/kernel/toolchain.h"

namespace kiln {

// Rewrites `request`'s launch parameters, options and target so that equal compiles are equal
// values: launch parameters given as options are moved to their place, what equals the declared
// default is dropped, the warp size is filled in.
//
// INVALID_ARGUMENT for an option that the backend does not know (the message lists those it knows),
// one of the wrong type, one given twice, a launch that the target cannot do, and for options that
// name files of the client. REQUIRES: CheckShape(request) is OK.
absl::Status CanonicalizeOptions(const Toolchain& toolchain, const BackendDescription& backend,
                                 CompileRequest& request);

// The architecture's own threads per warp.
int WarpSize(const Target& target);

}  // namespace kiln
