// The state of the whole daemon at one moment, for `kiln stats` and, later, metrics. Field by field
// the meaning stands in protos/kiln/admin/v1/admin_service.proto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/chain/admission_provider.h"
#include "daemon/chain/auditing_provider.h"
#include "daemon/pool/pool_stats.h"
#include "storage/base/digest.h"
#include "storage/user_quota.h"

namespace kiln {

struct ToolchainState {
  std::string name;
  Digest fingerprint;
  std::string state;
  uint64_t workers = 0;
  uint64_t compiles = 0;
  uint64_t queued = 0;
};

struct DaemonStats {
  std::string version;
  int64_t started_unix_ms = 0;
  std::string state = "serving";
  std::string state_reason;
  std::string compile_path;
  std::string store;

  uint64_t requests = 0;
  uint64_t hits_memory = 0;
  uint64_t hits_disk = 0;
  uint64_t hits_remote = 0;
  uint64_t joined = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;
  uint64_t rejected = 0;
  uint64_t not_found = 0;
  uint64_t abandoned = 0;
  uint64_t errors = 0;
  uint64_t in_flight = 0;

  uint64_t artifacts = 0;
  uint64_t store_bytes = 0;
  uint64_t store_bytes_max = 0;
  uint64_t evicted = 0;
  uint64_t quarantined = 0;
  uint64_t free_disk_bytes = 0;
  uint64_t hot_bytes = 0;
  uint64_t hot_files = 0;
  UserCacheStats own;

  std::vector<ToolchainState> toolchains;
  uint64_t toolchains_changed = 0;
  std::string toolchain_change;  // the last of them, for a person to read; "" where there is none
  AdmissionStats admission;
  uint64_t workers = 0;
  PoolCounters pools;  // of all toolchains, those that are here no more included
  uint64_t sources_quarantined = 0;
  uint64_t quarantine_refusals = 0;
  AuditStats audits;
  std::string jail;
  std::vector<std::string> jail_problems;
  std::vector<std::string> plain_limits;
  uint64_t connections = 0;
};

// For the service manager: "serving: 12 artifacts, 4 workers, 1 running, 0 queued".
std::string StatusLine(const DaemonStats& stats);

}  // namespace kiln
