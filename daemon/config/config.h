// What an operator may choose. Every field is declared once, in fields.cc, with its documentation,
// bounds and parser; flags, environment, file, --print-config and the table in docs/reference.md
// all follow from that.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/limits.h"

namespace kiln {

struct Config {
  struct Store {
    uint64_t size_bytes = limits::kStoreBytesDefault;
    uint64_t free_disk_bytes = limits::kFreeDiskBytesDefault;
    uint64_t memory_bytes = limits::kCacheBytesDefault;
    std::chrono::milliseconds lease_time = limits::kLeaseTimeDefault;
  };
  struct Hot {
    uint64_t size_bytes = limits::kHotDirectoryBytesDefault;
  };
  struct Workers {
    int64_t slots = 0;  // 0: one for each core that this process may use
    std::chrono::milliseconds compile_time = limits::kCompileTimeDefault;
    std::chrono::milliseconds idle_time = limits::kWorkerIdleTimeDefault;
    int64_t idle_min = limits::kIdleWorkersDefault;
    std::chrono::milliseconds zygote_idle_time = limits::kZygoteIdleTimeDefault;
    int64_t crashes_per_hour = limits::kCrashesPerHourDefault;
    // How long a source that crashed its compiler is not tried again.
    std::chrono::milliseconds quarantine_time = limits::kQuarantineTimeDefault;
    uint64_t rss_bytes = limits::kWorkerRssBytesDefault;
    // Memory that running compiles together leave free, as far as can be told beforehand.
    uint64_t memory_min_bytes = limits::kFreeMemoryBytesDefault;
    // From this much memory pressure on, compiles run one at a time. 0: whatever the pressure.
    int64_t memory_pressure_percent = limits::kMemoryPressurePercentDefault;
    std::string script;  // "": beside the executable
    std::string malloc = "jemalloc";
    std::string jail = "on";
    bool require_jail = false;
  };
  struct Audit {
    int64_t one_in = 0;  // 0: none
  };
  struct Queue {
    int64_t length = limits::kQueueLengthDefault;
  };
  struct Toolchain {
    std::vector<std::string> directories;          // empty: the usual places
    std::string default_selector;                  // "": the newest
    std::vector<std::string> trusted_owners = {};  // besides root and the daemon's own user
  };
  struct Sockets {
    std::string mode;  // "": 0660 for the system's service, 0600 for a person's
    std::string group;
    std::string admin_mode = "0600";
    std::string admin_group;
    std::chrono::milliseconds drain_time = limits::kDrainTimeDefault;
  };
  struct Tunings {
    std::vector<std::string> shared_by = {};  // empty: nobody
  };
  struct Log {
    std::string level = "info";
  };
  // As given; paths.h says where things end up.
  struct Paths {
    std::string root;
    std::string state;
    std::string run;
  };

  Store store;
  Hot hot;
  Workers workers;
  Audit audit;
  Queue queue;
  Toolchain toolchain;
  Sockets sockets;
  Tunings tunings;
  Log log;
  Paths paths;
};

}  // namespace kiln
