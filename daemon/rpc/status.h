// Statuses on their way to a client: DESIGN's codes stay as they are, and what a status carries
// besides (diagnostics, retry hints) becomes details. How they stand on the wire:
// protos/kiln/v1/kernel_service.proto.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "daemon/kernel/kernel.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// Small enough for every gRPC client's trailer limit: messages and diagnostics are cut. `key`: of
// the request that it answers, where it has one.
v1::RpcStatus ToRpcStatus(const absl::Status& status, const std::optional<Digest>& key = {});
v1::RpcStatus ToRpcStatus(const CompileFailure& failure, const Digest& key);
grpc::Status ToGrpcStatus(const absl::Status& status);
grpc::Status ToGrpcStatus(const v1::RpcStatus& status);

// Writes the error as one answer of a stream. A stream needs no text cut.
void SetError(const absl::Status& status, const std::optional<Digest>& key,
              v1::CompileStreamResponse& out);
void SetError(const CompileFailure& failure, const Digest& key, v1::CompileStreamResponse& out);

}  // namespace kiln
