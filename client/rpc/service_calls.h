// The calls of KernelService, each once, on one connection: watched for a daemon that stopped
// answering, but not repeated.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <string>

#include "client/rpc/retry.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

using KernelStub = v1::KernelService::Stub;

// How long the daemon may be silent, and the caller's deadline.
struct CallLimits {
  std::chrono::milliseconds answer_budget;
  Deadline deadline;
};

// Asks for nothing, so that any answer at all is a sign of life. Asks twice, each time for half of
// `budget`, before it says no: where this process itself was held up, the first time may be over
// before the daemon had any of it.
[[nodiscard]] bool ShowsLife(KernelStub& stub, std::chrono::milliseconds budget);

// Gives the call what is left of the deadline.
void SetDeadline(grpc::ClientContext& context, const Deadline& deadline);

[[nodiscard]] absl::Status CallCompile(KernelStub& stub, const v1::CompileRequest& request,
                                       const CallLimits& limits, v1::CompileResponse& response);
[[nodiscard]] absl::Status CallLookup(KernelStub& stub, const v1::LookupRequest& request,
                                      const CallLimits& limits, v1::LookupResponse& response);
[[nodiscard]] absl::Status CallGetOwn(KernelStub& stub, const v1::GetOwnRequest& request,
                                      const CallLimits& limits, v1::GetOwnResponse& response);
[[nodiscard]] absl::Status CallPutOwn(KernelStub& stub, const v1::PutOwnRequest& request,
                                      const CallLimits& limits);
[[nodiscard]] absl::Status CallNearest(KernelStub& stub, const v1::NearestRequest& request,
                                       const CallLimits& limits, v1::NearestResponse& response);
[[nodiscard]] absl::Status CallListToolchains(KernelStub& stub, const CallLimits& limits,
                                              v1::ListToolchainsResponse& response);

// The blob in one piece. DATA_LOSS where it is not what its digest says.
[[nodiscard]] absl::Status CallFetch(KernelStub& stub, const Digest& digest,
                                     const CallLimits& limits, std::string& content);

}  // namespace kiln
