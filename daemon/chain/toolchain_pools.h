// The worker pools of the toolchains that are served.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/chain/routing_provider.h"
#include "daemon/chain/sass_provider.h"
#include "daemon/pool/worker_pool.h"
#include "daemon/sandbox/jail.h"
#include "storage/base/executor.h"

namespace kiln {

// One toolchain's pool, and how it is.
struct ToolchainPool {
  std::shared_ptr<const Toolchain> toolchain;
  PoolStats stats;
};

// What works with one toolchain.
struct ToolchainWorkers {
  std::shared_ptr<CompilationProvider> provider;  // null for a disassembler
  std::shared_ptr<WorkerPool> pool;
  // Whether they compile anything still. Null: always.
  std::function<bool()> are_usable = nullptr;
};

// What there is to work with.
struct ToolchainsToServe {
  std::vector<std::shared_ptr<const Toolchain>> compilers;  // each fingerprint once
  bool has_default = false;                                 // it is the first of them
  std::shared_ptr<const Toolchain> disassembler;            // null: none is here
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
  // `serial` is another each time: two pools of one toolchain may live at the same time.
  struct Makers {
    std::function<ToolchainWorkers(const std::shared_ptr<const Toolchain>&, bool is_default,
                                   int serial)>
        compiler;
    std::function<ToolchainWorkers(const std::shared_ptr<const Toolchain>&, int serial)>
        disassembler;
  };

  // Routing and jail outlive it.
  ToolchainPools(RoutingProvider& routing, Jail& jail, Makers makers);
  ~ToolchainPools() { Shutdown(); }

  // From now on, these. Of the others, what runs may finish within `patience`, unless the
  // toolchain's files have changed, so that its answers would count for nothing. Not on two threads
  // at once, nor after Shutdown.
  void Serve(const ToolchainsToServe& toolchains, std::chrono::milliseconds patience);

  // What disassembles now; without a pool where nothing does. Whoever holds the pool may submit to
  // it, even when it has ended since.
  Disassembler FindDisassembler() const;

  // Those that end included, whose zygote is said to be "ending".
  std::vector<ToolchainPool> List() const;
  // What pools that are gone have done.
  PoolCounters Ended() const;

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
  // What serves it already; null where nothing does.
  ServedPtr Keep(const Toolchain& toolchain, bool has_other_ptxas);
  ServedPtr FindSame(const Toolchain& toolchain) const;
  ServedPtr BeginCompiler(const std::shared_ptr<const Toolchain>& toolchain, bool is_default);
  ServedPtr BeginDisassembler(const std::shared_ptr<const Toolchain>& toolchain);
  // Has `next` take the place of what is served: what is to end now, in no hurry.
  std::vector<ServedPtr> Exchange(std::list<ServedPtr> next, ServedPtr disassembler);
  void End(const ServedPtr& served, SteadyTime deadline);
  void AwaitIdle(const WorkerPool& pool, SteadyTime deadline);

  RoutingProvider& routing_;
  Jail& jail_;
  const Makers makers_;
  int serial_ = 0;             // Serve's
  std::vector<Digest> ptxas_;  // Serve's: listings of those that requests may name

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::list<ServedPtr> served_;
  ServedPtr disassembler_;  // one of them, or null
  PoolCounters ended_;
  // Last: its work uses everything above.
  std::unique_ptr<ThreadExecutor> ending_;
};

}  // namespace kiln
