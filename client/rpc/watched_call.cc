#include "client/rpc/watched_call.h"

#include "client/rpc/status_details.h"
#include "client/rpc/wedged.h"

namespace kiln {

WatchedCall::WatchedCall(KernelStub& life, const CallLimits& limits)
    : events_(context_, limits.answer_budget,
              [&life](std::chrono::milliseconds budget) { return ShowsLife(life, budget); }) {
  SetDeadline(context_, limits.deadline);
}

// An answer that crossed with the verdict counts.
absl::Status WatchedCall::Result(const grpc::Status& status) const {
  return events_.IsWedged() && !status.ok() ? WedgedStatus() : FromGrpc(status);
}

}  // namespace kiln
