// Passes a job to the workers of its toolchain.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/chain/compilation_provider.h"
#include "storage/base/mutex.h"

namespace kiln {

struct Route {
  std::shared_ptr<const Toolchain> toolchain;
  std::shared_ptr<CompilationProvider> provider;
};

// Passes each job to the route with its toolchain's fingerprint; otherwise as the routes do.
// Without such a route: UNAVAILABLE with a retry hint, and the names of the routes there are. The
// toolchain went away after the request had found it; another request resolves to another
// toolchain.
//
// Routes may be exchanged at any time. A route that is gone lives on until its last call has been
// answered.
//
// Thread-safe; does not block itself.
class RoutingProvider final : public CompilationProvider {
 public:
  // REQUIRES: no two routes have the same fingerprint.
  explicit RoutingProvider(std::vector<Route> routes = {});

  // From now on, these. REQUIRES: as above.
  void Replace(std::vector<Route> routes);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;
  std::string Describe() const override;

 private:
  using Routes = std::shared_ptr<const std::vector<Route>>;

  Routes Current() const;

  mutable Mutex mutex_;
  Routes routes_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
