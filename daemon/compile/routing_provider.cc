#include "daemon/compile/routing_provider.h"

#include <fmt/ranges.h>

#include <utility>

namespace kiln {

RoutingProvider::RoutingProvider(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (const Route& route : routes_) {
    by_fingerprint_.emplace(route.toolchain->fingerprint, route.provider.get());
  }
}

void RoutingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const auto found = by_fingerprint_.find(job->toolchain->fingerprint);
  if (found == by_fingerprint_.end()) return done(NoRoute(*job->toolchain));
  found->second->Compile(std::move(context), std::move(job), std::move(done));
}

// The key does not say whose it is; a leaf that does not know it ignores it.
void RoutingProvider::Raise(const Digest& key, Priority priority) {
  for (const Route& route : routes_) route.provider->Raise(key, priority);
}

std::string RoutingProvider::Describe() const {
  std::vector<std::string> parts;
  for (const Route& route : routes_) parts.push_back(route.provider->Describe());
  return fmt::format("routing({})", fmt::join(parts, ", "));
}

absl::Status RoutingProvider::NoRoute(const Toolchain& toolchain) const {
  std::vector<std::string> names;
  for (const Route& route : routes_) {
    names.push_back(
        fmt::format("{} ({})", route.toolchain->Name(), route.toolchain->fingerprint.ShortHex()));
  }
  return FailedPrecondition(
      "no workers run for toolchain {} ({}); those that do run are for {}. The daemon's log says "
      "why it could not be started",
      toolchain.Name(), toolchain.fingerprint.ShortHex(),
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace kiln
