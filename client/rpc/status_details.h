// Between gRPC's statuses and ours: the same codes, and what a trailer carries becomes a payload.
#pragma once

#include <grpcpp/support/status.h>

#include "client/rpc/client.h"
#include "storage/base/status.h"

namespace kiln {

[[nodiscard]] absl::Status FromGrpc(const grpc::Status& status);

// An answer of a stream: code and message stand in the message itself.
[[nodiscard]] absl::Status FromStreamAnswer(const v1::CompileStreamResponse& answer);

}  // namespace kiln
