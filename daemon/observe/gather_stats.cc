#include "daemon/observe/gather_stats.h"

#include <algorithm>

namespace kiln {
namespace {

void AddRequests(const StatsSources& sources, DaemonStats& stats) {
  const CompileCounts counts = sources.chain.Counts();
  stats.requests = counts.requests + sources.refused;
  stats.hits_memory = counts.hits[0];
  stats.hits_disk = counts.hits[1];
  stats.hits_remote = counts.hits[2];
  stats.joined = counts.joined;
  stats.compiled = counts.compiled;
  stats.failed = counts.failed;
  stats.rejected = counts.rejected + sources.refused;
  stats.not_found = counts.not_found;
  stats.abandoned = counts.abandoned;
  stats.errors = counts.errors;
  stats.in_flight = counts.InFlight();
}

void AddStored(const StoreStats& stored, const HotDirectoryStats& hot, const UserCacheStats& own,
               DaemonStats& stats) {
  stats.own = own;
  // They are records like any other to the store.
  stats.artifacts = stored.artifacts - std::min(stored.artifacts, own.entries);
  stats.store_bytes = stored.stored_bytes;
  stats.store_bytes_max = stored.stored_bytes_max;
  stats.evicted = stored.evicted;
  stats.quarantined = stored.quarantined;
  stats.free_disk_bytes = stored.free_disk_bytes;
  stats.hot_bytes = hot.bytes;
  stats.hot_files = hot.files;
}

void AddToolchain(const ToolchainPool& served, DaemonStats& stats) {
  stats.toolchains.push_back({.name = served.toolchain->Name(),
                              .fingerprint = served.toolchain->fingerprint,
                              .state = served.stats.zygote,
                              .workers = static_cast<uint64_t>(served.stats.workers),
                              .compiles = served.stats.compiles,
                              .queued = served.stats.queued});
}

void AddPools(const StatsSources& sources, DaemonStats& stats) {
  stats.pools = sources.ended_pools;
  for (const ToolchainPool& served : sources.pools) {
    AddToolchain(served, stats);
    stats.workers += static_cast<uint64_t>(served.stats.workers);
    stats.pools += served.stats;
  }
}

void SetState(const StatsSources& sources, const std::string& degraded, DaemonStats& stats) {
  if (sources.is_draining) {
    stats.state = "draining";
  } else if (!degraded.empty()) {
    stats.state = "degraded";
    stats.state_reason = degraded;
  }
}

}  // namespace

DaemonStats GatherStats(const StatsSources& sources) {
  DaemonStats stats;
  stats.version = KILN_VERSION;
  stats.started_unix_ms = sources.started_unix_ms;
  stats.compile_path = sources.chain.Describe();
  stats.store = sources.store.Describe();
  stats.connections = sources.connections;
  AddRequests(sources, stats);
  const StoreStats stored = sources.store.Stats();
  AddStored(stored, sources.hot.Stats(), sources.own.Stats(), stats);
  AddPools(sources, stats);
  stats.toolchains_changed = sources.toolchains_changed;
  stats.toolchain_change = sources.toolchain_change;
  stats.admission = sources.admission.Stats();
  stats.sources_quarantined = sources.negatives.CrashCount();
  stats.quarantine_refusals = sources.negatives.refusals();
  stats.jail = NameOf(sources.jail.mode());
  stats.jail_problems = sources.jail.Problems();
  stats.plain_limits = sources.plain_limits;
  if (sources.auditing != nullptr) stats.audits = sources.auditing->Stats();
  SetState(sources, stored.degraded, stats);
  return stats;
}

}  // namespace kiln
