// The worker pools of the toolchains that are served.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "daemon/chain/routing_provider.h"
#include "daemon/pool/worker_pool.h"
#include "daemon/sandbox/jail.h"
#include "storage/base/executor.h"
#include "storage/base/mutex.h"

namespace kiln {

// One toolchain's pool, and how it is.
struct ToolchainPool {
  std::shared_ptr<const Toolchain> toolchain;
  PoolStats stats;
};

// What works with one toolchain.
struct ToolchainWorkers {
  std::shared_ptr<CompilationProvider> provider;
  std::shared_ptr<WorkerPool> pool;
  // Whether they compile anything still. Null: always.
  std::function<bool()> are_usable = nullptr;
};

// Keeps one pool for each toolchain that is there, gives those of toolchains that are gone the time
// to finish, and tells routing and jail of both.
//
// A toolchain keeps its pool while it is the same to the last file's time: where something was done
// to its files, processes that have read some of them may not go on, whatever its fingerprint is
// now.
//
// Thread-safe. Serve and Shutdown block, for as long as it takes to start threads and to end them.
class ToolchainPools {
 public:
  // `serial` is unique: two pools of one toolchain may live at the same time.
  using WorkersMaker = std::function<ToolchainWorkers(
      const std::shared_ptr<const Toolchain>& toolchain, bool starts_ahead, int serial)>;

  // Routing and jail outlive it.
  ToolchainPools(RoutingProvider& routing, Jail& jail, WorkersMaker make_workers);
  ~ToolchainPools() { Shutdown(); }

  // Serves these from now on, each fingerprint once; with `has_default` the first is the default.
  // The default and the first ptxas start ahead: those are what requests get that name none.
  // Compiles of the others may finish within `patience`. Where the toolchain's files have changed,
  // its compiles are cancelled. REQUIRES: one call at a time, before Shutdown.
  void Serve(const std::vector<std::shared_ptr<const Toolchain>>& toolchains, bool has_default,
             std::chrono::milliseconds patience);

  // Pools that end are included. Their zygote's state is "ending".
  std::vector<ToolchainPool> List() const;

  // Ends all of them at once. Idempotent.
  void Shutdown();

 private:
  struct Served {
    std::shared_ptr<const Toolchain> toolchain;
    ToolchainWorkers workers;
    bool is_ending = false;
  };
  using ServedPtr = std::shared_ptr<Served>;

  // Lets workers start each ptxas that is among them: whether those are others than before.
  bool AdmitAssemblers(const std::vector<std::shared_ptr<const Toolchain>>& toolchains);
  // The pool that serves this toolchain already; null where none does.
  ServedPtr Keep(const Toolchain& toolchain, bool has_other_ptxas);
  ServedPtr FindSame(const Toolchain& toolchain) const;
  // Has `next` take the place of what is served: what is to end now, in no hurry.
  std::vector<ServedPtr> Exchange(std::list<ServedPtr> next);
  void End(const ServedPtr& served, SteadyTime deadline);
  void AwaitIdle(const WorkerPool& pool, SteadyTime deadline);

  RoutingProvider& routing_;
  Jail& jail_;
  const WorkersMaker make_workers_;
  int serial_ = 0;             // Serve's
  std::vector<Digest> ptxas_;  // Serve's: listings of those that requests may name

  mutable Mutex mutex_;
  CondVar stopped_;
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  std::list<ServedPtr> served_ KILN_GUARDED_BY(mutex_);
  // Last: its work uses everything above.
  std::unique_ptr<ThreadExecutor> ending_;
};

}  // namespace kiln
