#include "daemon/chain/routing_provider.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status NoRoute(const std::vector<Route>& routes, const Toolchain& toolchain) {
  std::vector<std::string> names;
  for (const Route& route : routes) {
    names.push_back(
        fmt::format("{} ({})", route.toolchain->Name(), route.toolchain->fingerprint.ShortHex()));
  }
  return WithRetryAfter(
      Unavailable("toolchain {} ({}) went away after this request had chosen it; there are {}. Ask "
                  "again",
                  toolchain.Name(), toolchain.fingerprint.ShortHex(),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
      limits::kRetryHintMin);
}

}  // namespace

RoutingProvider::RoutingProvider(std::vector<Route> routes) { Replace(std::move(routes)); }

void RoutingProvider::Replace(std::vector<Route> routes) {
  auto replacement = std::make_shared<const std::vector<Route>>(std::move(routes));
  const MutexLock lock(mutex_);
  routes_.swap(replacement);
}

RoutingProvider::Routes RoutingProvider::Current() const {
  const MutexLock lock(mutex_);
  return routes_;
}

void RoutingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const Routes routes = Current();
  // There are a few; a map would not find one sooner.
  const auto found = std::find_if(routes->begin(), routes->end(), [&](const Route& route) {
    return route.toolchain->fingerprint == job->toolchain->fingerprint;
  });
  if (found == routes->end()) return done(NoRoute(*routes, *job->toolchain));
  // Held by the answer as well: the route may be gone by then.
  const std::shared_ptr<CompilationProvider> provider = found->provider;
  provider->Compile(std::move(context), std::move(job),
                    [provider, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                      done(std::move(result));
                    });
}

// The key does not say whose it is; a leaf that does not know it ignores it.
void RoutingProvider::Raise(const Digest& key, const CallContext& waiter) {
  for (const Route& route : *Current()) route.provider->Raise(key, waiter);
}

std::string RoutingProvider::Describe() const {
  const Routes routes = Current();
  std::vector<std::string> parts;
  for (const Route& route : *routes) {
    parts.push_back(route.provider->Describe());
    const auto namesakes = std::count_if(routes->begin(), routes->end(), [&](const Route& other) {
      return other.toolchain->Name() == route.toolchain->Name();
    });
    if (namesakes > 1) parts.back() += ' ' + route.toolchain->fingerprint.ShortHex();
  }
  return fmt::format("routing({})", fmt::join(parts, ", "));
}

}  // namespace kiln
