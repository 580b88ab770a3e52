// For commands that ask for kernels of several backends at once.
#pragma once

#include "kiln/v1/kernel_service.pb.h"

namespace kiln::cli {

// Drops the stages that only other backends of the daemon's toolchains have: amdgcn from a kernel
// for cuda. Keeps all stages if none is this backend's, and keeps unknown names: the daemon then
// says what is wrong.
void DropForeignStages(const v1::ListToolchainsResponse& listed, v1::CompileRequest& request);

}  // namespace kiln::cli
