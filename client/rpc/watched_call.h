// One call, watched for a daemon that stopped answering.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include "client/rpc/service_calls.h"
#include "client/rpc/watched_queue.h"
#include "storage/base/status.h"

namespace kiln {

// While the call is quiet, `life` is asked whether the daemon lives: a stub on the same connection.
// Blocks; one use is one call.
class WatchedCall {
 public:
  WatchedCall(KernelStub& life, const CallLimits& limits);

  // `prepare` is one of a stub's PrepareAsync… functions for a unary method.
  template <typename Request, typename Response, typename Prepare>
  [[nodiscard]] absl::Status Unary(const Request& request, Response& response,
                                   const Prepare& prepare) {
    const auto call = prepare(&context_, request, events_.queue());
    grpc::Status status;
    call->StartCall();
    response.Clear();
    call->Finish(&response, &status, nullptr);
    events_.Next();
    return Result(status);
  }

  // The same for a method that answers with a stream. `take` is given each message and says whether
  // it wants more; where it does not, the call is cancelled and CANCELLED comes back.
  template <typename Message, typename Request, typename Prepare, typename Take>
  [[nodiscard]] absl::Status Stream(const Request& request, const Prepare& prepare,
                                    const Take& take) {
    const auto reader = prepare(&context_, request, events_.queue());
    reader->StartCall(nullptr);
    bool is_open = events_.Next()->ok;
    bool is_wanted = true;
    Message message;
    while (is_open) {
      reader->Read(&message, nullptr);
      is_open = events_.Next()->ok;
      if (!is_open || !is_wanted) continue;
      is_wanted = take(message);
      if (!is_wanted) context_.TryCancel();
    }
    grpc::Status status;
    reader->Finish(&status, nullptr);
    events_.Next();
    return Result(status);
  }

 private:
  absl::Status Result(const grpc::Status& status) const;

  grpc::ClientContext context_;
  WatchedQueue events_;
};

}  // namespace kiln
