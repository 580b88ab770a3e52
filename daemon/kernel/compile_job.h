// A compile request that passed validation.
#pragma once

#include <memory>

#include "daemon/kernel/kernel.h"
#include "daemon/kernel/toolchain.h"
#include "storage/base/digest.h"

namespace kiln {

// A request that passed validation. Immutable and shared along the chain.
struct CompileJob {
  CompileRequest request;  // launch parameters and options in canonical form: what equals the
                           // toolchain's default is absent
  std::shared_ptr<const Toolchain> toolchain;
  std::shared_ptr<const Toolchain> ptxas;  // that the request names; null: the toolchain's own
  Digest key;
};

using CompileJobPtr = std::shared_ptr<const CompileJob>;

}  // namespace kiln
