// What the calls of KernelService share. Nothing here repeats a call.
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

// Whether the daemon answers an empty call within `budget`; any answer counts. Asks twice, each
// time for half of `budget`: this process may have been stopped during the first time.
[[nodiscard]] bool ShowsLife(KernelStub& stub, std::chrono::milliseconds budget);

// Sets the call's deadline, if there is one.
void SetDeadline(grpc::ClientContext& context, const Deadline& deadline);

// The whole blob. DATA_LOSS: it does not match its digest.
[[nodiscard]] absl::Status CallFetch(KernelStub& stub, const Digest& digest,
                                     const CallLimits& limits, std::string& content);

}  // namespace kiln
