// How the whole daemon is, in words. Its numbers are metrics (storage/base/metrics.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/digest.h"

namespace kiln {

// Field by field the meaning stands in protos/kiln/admin/v1/admin_service.proto.
struct DaemonState {
  struct Served {
    std::string name;
    Digest fingerprint;
    std::string state;
  };

  // A daemon that drains says so rather than that its store takes nothing.
  void SetState(bool is_draining, const std::string& why_degraded);
  // For the service manager: "serving: 12 artifacts, 4 workers, 1 running, 0 queued".
  std::string Line() const;

  std::string version;
  int64_t started_unix_ms = 0;
  std::string state = "serving";
  std::string reason;
  std::string compile_path;
  std::string store;
  std::vector<Served> toolchains;
  std::string toolchain_change;
  std::string jail;
  std::vector<std::string> jail_problems;
  std::vector<std::string> plain_limits;
};

}  // namespace kiln
