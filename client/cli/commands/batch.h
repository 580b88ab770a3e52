// Many requests through the daemon, each shown as it is answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/cli/commands/session.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "storage/base/clock.h"

namespace kiln::cli {

struct BatchOptions {
  // The file of requests; "": source files. When the batch ends early, source files that were not
  // sent count as failed.
  std::string requests;
  // How many requests there will be, where known.
  std::optional<uint64_t> total;
  // The artifacts are stored, and not returned. Only failures are shown.
  bool is_warming = false;
  // Requests that are sent and not answered.
  size_t in_flight_max = InFlightDefault();
  // No request is sent after this time.
  std::optional<SteadyTime> stop_at;
  // No request is sent after a failure.
  bool stops_at_failure = false;
  // The nvdisasm that makes the stage "sass"; "": the one that FindNvdisasm finds.
  std::string nvdisasm;
  // Where answers are written; may be null.
  OutputDirectory* output = nullptr;
  // Hears of each artifact's key, from one thread at a time; may be empty. `is_named`: the end says
  // of it that the job may ask for another, or that it is not leased.
  std::function<void(const std::string& key, bool is_named)> on_artifact;
  // Hears of each request that was refused as when it was recorded, from one thread at a time; may
  // be empty.
  std::function<void()> on_known_refusal;
  // Hears of each request that failed, from one thread at a time; may be empty.
  std::function<void(const std::string& name, const absl::Status& status)> on_failure;
};

// How the answers came out.
struct BatchCounts {
  uint64_t answers = 0;
  uint64_t hit = 0;
  uint64_t joined = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;  // as when they were recorded; not among `failed`
  uint64_t bytes = 0;
};
// "3 in 1.2 s: 2 hit, 0 joined, 1 compiled, 0 failed, 12.5 KiB".
[[nodiscard]] std::string SummaryLine(const BatchCounts& counts, std::chrono::microseconds wall);

// Asks for everything in `next`, prints each answer and then a summary: JSON lines, a table, or
// failures with a progress bar. Reports a request that cannot be read as failed, and goes on. Holds
// only the requests under way. Blocks. REQUIRES: without a file of requests, `next` comes to an end
// without waiting.
[[nodiscard]] ExitCode RunBatch(Client& client, Session& session, NamedRequestSource next,
                                const BatchOptions& options);

}  // namespace kiln::cli
