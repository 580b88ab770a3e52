// Asks every part of the daemon how it is and makes one picture of the answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/chain/admission_provider.h"
#include "daemon/chain/auditing_provider.h"
#include "daemon/chain/counting_provider.h"
#include "daemon/chain/toolchain_pools.h"
#include "daemon/kernel/toolchain.h"
#include "daemon/observe/daemon_stats.h"
#include "daemon/policy/negative_cache.h"
#include "daemon/sandbox/jail.h"
#include "storage/hot/hot_directory.h"
#include "storage/store.h"
#include "storage/user_quota.h"

namespace kiln {

// Who is asked, and what the layers above this one know.
struct StatsSources {
  const CountingProvider& chain;
  Store& store;
  const HotDirectory& hot;
  const UserQuota& own;
  std::vector<ToolchainPool> pools;
  PoolCounters ended_pools = {};  // together: of toolchains that are here no more
  const AdmissionProvider& admission;
  NegativeCache& negatives;
  const Jail& jail;
  std::vector<std::string> plain_limits = {};
  const AuditingProvider* auditing = nullptr;  // null: there are no audits

  int64_t started_unix_ms = 0;
  bool is_draining = false;
  uint64_t connections = 0;
  uint64_t refused = 0;  // before they reached the chain
  uint64_t toolchains_changed = 0;
  std::string toolchain_change =
      {};  // the last of them, for a person to read; "" where there is none
};

// Not at one moment: each part is asked after the other. Blocks only on the parts' short mutexes.
DaemonStats GatherStats(const StatsSources& sources);

}  // namespace kiln
