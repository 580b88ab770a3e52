// What the services of every principal work on.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "daemon/chain/compilation_provider.h"
#include "daemon/kernel/nearest_artifact.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/kernel/toolchain.h"
#include "daemon/observe/activity.h"
#include "daemon/observe/job_keys.h"
#include "daemon/rpc/byte_budget.h"
#include "daemon/rpc/request_gate.h"
#include "daemon/rpc/request_memo.h"
#include "storage/artifact_index.h"
#include "storage/base/executor.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "storage/user_cache.h"
#include "storage/user_rate_limit.h"
#include "storage/warm_leases.h"

namespace kiln {

// All of it outlives the servers and is thread-safe.
struct RpcDependencies {
  const RequestResolver& resolver;
  CompilationProvider& provider;
  const ToolchainCatalog& catalog;
  ArtifactIndex& index;
  BlobStore& blobs;
  UserCache& own;
  UserRateLimit& user_rate_limit;
  // For what reads more from the disk than the few threads that serve all connections should wait
  // for.
  Executor& executor;
  Executor& bundle_executor;  // for blocks of bundles
  RequestGate& gate;
  RequestMemo& memo;
  // Searches for the nearest artifact, and users' lists of their own, that wait or run.
  std::atomic<size_t>& searches;
  Store& store;
  Activity& activity;
  WarmLeases& leases;
  // Whether the artifact is in the hot directory; it then counts as just used. Does not block.
  std::function<bool(const Digest&)> is_published;
  // What differs between the toolchains with these fingerprints, as far as it is known. Blocks.
  std::function<std::vector<RequestDifference>(const Digest& asked, const Digest& stored)>
      compare_toolchains;
  // A principal with this uid has no user cache (shared_uid.h).
  std::optional<uid_t> shared_uid = {};
  // Users who share the entries that a call names tunings.
  std::set<uid_t> tuning_users = {};
  // What `kiln record --job` writes, besides what was compiled first for the job.
  std::shared_ptr<JobKeys> job_keys{new JobKeys};
  // Answers that are built and not yet sent.
  std::shared_ptr<SharedBytes> unread{new SharedBytes{limits::kUnreadBytesMax}};
  // Held from a look at the store's room until an import has filled it.
  std::shared_ptr<Mutex> import_room{new Mutex};
  // gRPC's connections on which nothing happens for about as long end.
  std::chrono::milliseconds silent_time = limits::kSilentTime;
};

}  // namespace kiln
