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
  std::string source_file;  // as it was given; "" where the request has the text itself
  uint64_t line = 0;        // in the file of requests; 0: not from one
  std::string target;       // "" where the request could not be read
  std::string file;         // the name under which it is written; "" where nothing is
  // From sending to answer, as this side saw it.
  std::chrono::microseconds duration{0};
  absl::StatusOr<v1::CompileResponse> answer;
  // Of one that is to be answered from the cache alone and was not in it.
  std::optional<v1::CompileRequest> missed = std::nullopt;
  // What is stored instead, where somebody has asked.
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
  // What was not sent when the batch ended early is reported as well. REQUIRES: `next` comes to an
  // end without waiting for anybody.
  bool report_unsent = false;
  // Gives a request the name of its file, in the order of the requests; may be empty.
  std::function<std::string(const std::string& name)> name_file;
  // The nvdisasm that makes the stage "sass"; "": the one that FindNvdisasm finds.
  std::string nvdisasm;
  // May put an error in place of an answer that could not be kept: it is counted afterwards.
  std::function<void(BatchAnswer&)> report;
};

// Requests that could not be read are reported as failed and do not stop the others. Holds no more
// than what is under way. The status says why it ended early, if it did; the counts hold what was
// done until then. Blocks.
[[nodiscard]] absl::Status RunBatch(Client& client, const ManyOptions& options, const Clock& clock,
                                    const BatchParts& parts, BatchCounts& counts);

}  // namespace kiln::cli
