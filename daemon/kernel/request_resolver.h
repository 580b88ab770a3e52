// Stands before the chain: turns what a client sent into a job that the chain can trust.
#pragma once

#include "daemon/kernel/compile_job.h"
#include "daemon/kernel/kernel.h"
#include "daemon/kernel/toolchain.h"

namespace kiln {

// Validates a request, finds its toolchain, brings its options into canonical form and computes its
// key.
//
// INVALID_ARGUMENT: the request is wrong whatever is installed; the message names the field and
// what would be right. RESOURCE_EXHAUSTED: the source is too large. FAILED_PRECONDITION: no
// toolchain here compiles it; the message is the catalog's, which lists those there are.
//
// Thread-safe. Does not block. The catalog outlives it.
class RequestResolver {
 public:
  explicit RequestResolver(const ToolchainCatalog& catalog) : catalog_(catalog) {}

  absl::StatusOr<CompileJobPtr> Resolve(CompileRequest request) const;

 private:
  absl::Status CheckBackend(const Target& target) const;
  // What the request's `ptxas` means for its kind of source.
  absl::Status ChoosePtxas(CompileRequest& request, CompileJob& job) const;

  const ToolchainCatalog& catalog_;
};

}  // namespace kiln
