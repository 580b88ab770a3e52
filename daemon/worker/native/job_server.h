// A worker, from fork to exit.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "daemon/sandbox/jail_description.h"
#include "daemon/worker/native/native_compiler.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// What a fork request says of the worker's surroundings.
struct Surroundings {
  std::string directory;  // its own, and where it runs
  WorkerLimits limits;
  std::optional<JailDescription> jail;

  static absl::StatusOr<Surroundings> Parse(const nlohmann::json& request);
};

// What a forked child does: confines itself and compiles what comes over `job`. The daemon ends it
// after its first answer. `output` becomes its standard output and error.
[[noreturn]] void RunWorker(NativeCompiler& compiler, const Surroundings& surroundings,
                            UniqueFd job, UniqueFd output);

// Has the kernel load what this process executes at the same addresses every time: some releases of
// ptxas allocate registers in an order that depends on addresses. Where a sandbox forbids the call,
// chance decides, as it does for whoever runs ptxas by hand.
void DoNotRandomizePrograms();

}  // namespace kiln
