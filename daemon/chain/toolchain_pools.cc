#include "daemon/chain/toolchain_pools.h"

#include <algorithm>
#include <utility>

#include "storage/base/log.h"

namespace kiln {
namespace {

using Steady = std::chrono::steady_clock;

// How often it is looked whether a pool that ends has nothing left to do.
constexpr auto kIdleLook = std::chrono::milliseconds(50);

constexpr std::string_view kPtxas = "ptxas";

bool IsUnchanged(const Toolchain& toolchain) {
  return toolchain.seal == nullptr || toolchain.seal->Check().ok();
}

}  // namespace

ToolchainPools::ToolchainPools(RoutingProvider& routing, Jail& jail, WorkersMaker make_workers)
    : routing_(routing),
      jail_(jail),
      make_workers_(std::move(make_workers)),
      ending_(std::make_unique<ThreadExecutor>(1, limits::kToolchainsEndingMax)) {}

void ToolchainPools::Serve(const std::vector<std::shared_ptr<const Toolchain>>& toolchains,
                           bool has_default, std::chrono::milliseconds patience) {
  const bool has_other_ptxas = AdmitAssemblers(toolchains);
  std::list<ServedPtr> next;
  std::vector<Route> routes;
  bool has_ptxas = false;
  for (const auto& toolchain : toolchains) {
    const bool is_first_ptxas = toolchain->name == kPtxas && !std::exchange(has_ptxas, true);
    const bool is_default_triton = has_default && routes.empty() && !toolchain->interpreter.empty();
    const bool starts_ahead = is_first_ptxas || is_default_triton;
    ServedPtr served = Keep(*toolchain, has_other_ptxas);
    if (served == nullptr) {
      served = std::make_shared<Served>(
          Served{toolchain, make_workers_(toolchain, starts_ahead, serial_++), false});
    }
    routes.push_back({served->toolchain, served->workers.provider});
    next.push_back(std::move(served));
  }
  routing_.Replace(std::move(routes));
  for (const ServedPtr& served : Exchange(std::move(next))) {
    const auto left = IsUnchanged(*served->toolchain) ? patience : std::chrono::milliseconds(0);
    ending_->Run([this, served, deadline = Steady::now() + left] { End(served, deadline); });
  }
}

bool ToolchainPools::AdmitAssemblers(
    const std::vector<std::shared_ptr<const Toolchain>>& toolchains) {
  std::vector<std::string> assemblers;
  std::vector<Digest> ptxas;
  for (const auto& toolchain : toolchains) {
    if (toolchain->name != kPtxas) continue;
    assemblers.push_back(toolchain->directory);
    ptxas.push_back(toolchain->listing);
  }
  const bool are_others = std::exchange(ptxas_, ptxas) != ptxas;
  if (are_others) jail_.SetAssemblers(assemblers);
  return are_others;
}

ToolchainPools::ServedPtr ToolchainPools::Keep(const Toolchain& toolchain, bool has_other_ptxas) {
  ServedPtr served = FindSame(toolchain);
  // Its workers may not start the new ones, and may have used one that is another by now.
  if (served != nullptr && has_other_ptxas) served->workers.pool->Renew();
  return served;
}

std::vector<ToolchainPools::ServedPtr> ToolchainPools::Exchange(std::list<ServedPtr> next) {
  std::vector<ServedPtr> gone;
  const MutexLock lock(mutex_);
  for (const ServedPtr& served : served_) {
    if (std::find(next.begin(), next.end(), served) != next.end()) continue;
    if (!std::exchange(served->is_ending, true)) gone.push_back(served);
    next.push_back(served);
  }
  served_.swap(next);
  return gone;
}

ToolchainPools::ServedPtr ToolchainPools::FindSame(const Toolchain& toolchain) const {
  const MutexLock lock(mutex_);
  for (const ServedPtr& served : served_) {
    const Toolchain& known = *served->toolchain;
    const auto& are_usable = served->workers.are_usable;
    if (are_usable && !are_usable()) continue;
    if (!served->is_ending && known.fingerprint == toolchain.fingerprint &&
        known.listing == toolchain.listing && known.directory == toolchain.directory &&
        known.interpreter == toolchain.interpreter) {
      return served;
    }
  }
  return nullptr;
}

void ToolchainPools::End(const ServedPtr& served, SteadyTime deadline) {
  AwaitIdle(*served->workers.pool, deadline);
  served->workers.pool->Shutdown(Steady::now());
  LogInfo("toolchain no longer served",
          {{"name", served->toolchain->Name()},
           {"fingerprint", served->toolchain->fingerprint.ShortHex()}});
  const MutexLock lock(mutex_);
  served_.remove(served);
}

void ToolchainPools::AwaitIdle(const WorkerPool& pool, SteadyTime deadline) {
  const MutexLock lock(mutex_);
  while (!stopping_ && Steady::now() < deadline) {
    const PoolStats stats = pool.Stats();
    if (stats.running == 0 && stats.queued == 0) return;
    stopped_.WaitUntil(mutex_, Steady::now() + kIdleLook);
  }
}

std::vector<ToolchainPool> ToolchainPools::List() const {
  std::vector<ToolchainPool> pools;
  const MutexLock lock(mutex_);
  for (const ServedPtr& served : served_) {
    pools.push_back({served->toolchain, served->workers.pool->Stats()});
    if (served->is_ending) pools.back().stats.zygote = "ending";
  }
  return pools;
}

void ToolchainPools::Shutdown() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  ending_.reset();  // runs what it has to do
  std::list<ServedPtr> left;
  {
    const MutexLock lock(mutex_);
    left = served_;
  }
  for (const ServedPtr& served : left) served->workers.pool->Shutdown(Steady::now());
}

}  // namespace kiln
