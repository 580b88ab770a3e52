// To the workers of the toolchain that the job names.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/compile/compilation_provider.h"

namespace kiln {

struct Route {
  std::shared_ptr<const Toolchain> toolchain;
  std::unique_ptr<CompilationProvider> provider;
};

// Passes each job to the route with its toolchain's fingerprint. FAILED_PRECONDITION, listing the
// routes there are, where there is none: a toolchain that was found but could not be started.
// Otherwise as the routes do.
//
// Thread-safe; does not block itself.
class RoutingProvider final : public CompilationProvider {
 public:
  // REQUIRES: no two routes have the same fingerprint.
  explicit RoutingProvider(std::vector<Route> routes);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, Priority priority) override;
  std::string Describe() const override;

 private:
  absl::Status NoRoute(const Toolchain& toolchain) const;

  const std::vector<Route> routes_;
  std::unordered_map<Digest, CompilationProvider*, DigestHash> by_fingerprint_;
};

}  // namespace kiln
