// Whether everything that manifests name is in the cache.
#pragma once

#include <string>
#include <vector>

#include "client/cli/commands/request_source.h"
#include "client/cli/commands/session.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln::cli {

struct WarmthQuestion {
  std::vector<std::string> files;  // that can be read twice
  RequestTemplate shape;
  Shard shard;
};

// Asks once and prints the state: complete, partial or failed, and what is not there. The store is
// asked, so what was evicted since counts as missing. kOk: complete. kFailed: partial or failed.
[[nodiscard]] absl::StatusOr<ExitCode> ShowWarmth(const WarmthQuestion& question, Session& session);

// Asks again for what is not there until nothing is, or until --timeout: then the state is printed
// as above. Shows progress. A daemon that restarts meanwhile is waited for.
[[nodiscard]] absl::StatusOr<ExitCode> WaitForWarmth(const WarmthQuestion& question,
                                                     Session& session);

}  // namespace kiln::cli
