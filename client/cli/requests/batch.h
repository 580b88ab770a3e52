// Many requests through the daemon, each reported as it is answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln::cli {

// One answer, with what was asked.
struct BatchAnswer {
  std::string name;
  std::string source_file;  // as it was given; "": the request has the text itself
  uint64_t line = 0;        // in the file of requests; 0: not from one
  std::string target;       // "" where the request could not be read
  std::string file;         // the name under which it is written; "" where nothing is
  // From sending to answer, as this side saw it.
  std::chrono::microseconds duration{0};
  absl::StatusOr<v1::CompileResponse> answer;
  // The request, if it asked for only-if-cached and the cache did not have it.
  std::optional<v1::CompileRequest> missed = std::nullopt;
  // The closest stored artifact, if `report` has asked for it.
  std::optional<v1::NearestResponse> nearest = std::nullopt;
};

struct BatchCounts {
  uint64_t requests = 0;
  uint64_t hit = 0;
  uint64_t joined = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;
  uint64_t bytes = 0;
  std::chrono::microseconds wall{0};
};

// The stages of an answer, all together.
[[nodiscard]] uint64_t BytesOf(const v1::CompileResponse& response);

// Where requests come from; nothing at the end.
using NamedRequestSource = std::function<std::optional<NamedRequest>()>;

struct BatchParts {
  NamedRequestSource next;
  // Also reports the requests that were not sent when the batch ended early. REQUIRES: `next` comes
  // to an end without waiting.
  bool report_unsent = false;
  // Gives a request the name of its file, in the order of the requests; may be empty.
  std::function<std::string(const std::string& name)> name_file;
  // The nvdisasm that makes the stage "sass"; "": the one that FindNvdisasm finds.
  std::string nvdisasm;
  // May put an error in place of an answer that could not be kept: it is counted afterwards.
  std::function<void(BatchAnswer&)> report;
};

// Reports a request that cannot be read as failed, and goes on. Holds only the requests under way.
// The status says why the batch ended early; the counts cover the part that was done. Blocks.
[[nodiscard]] absl::Status RunBatch(Client& client, const ManyOptions& options, const Clock& clock,
                                    const BatchParts& parts, BatchCounts& counts);

}  // namespace kiln::cli
