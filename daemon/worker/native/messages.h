// The worker's side of daemon/worker/worker_protocol.h.
#pragma once

#include <string>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/process/frame.h"
#include "daemon/worker/worker_protocol.h"
#include "storage/base/status.h"

namespace kiln {

// What EncodeCompileHeader and the payload said: source text, target, options (launch parameters
// among them) and the parameters' names and types. The error is the daemon's mistake.
absl::StatusOr<CompileRequest> DecodeCompile(const Frame& frame);

// The header of what DecodeReady reads.
std::string EncodeReadyHeader(const std::vector<std::string>& jail_problems);

struct ResultMessage {
  std::string header;
  std::string payload;
};

// What DecodeResult reads.
ResultMessage EncodeResult(const WorkerReply& reply);

}  // namespace kiln
