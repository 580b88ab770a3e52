// One call, watched for a daemon that stopped answering.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>

#include "client/rpc/service_calls.h"
#include "client/rpc/watched_queue.h"
#include "storage/base/status.h"

namespace kiln {

// One of a stub's PrepareAsync… functions.
template <typename Stub, typename Request, typename Response>
using UnaryMethod = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
template <typename Stub, typename Request, typename Message>
using StreamMethod = std::unique_ptr<grpc::ClientAsyncReader<Message>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// While the call is quiet, `life` is asked whether the daemon lives: a stub on the same connection.
// Blocks; one use is one call.
class WatchedCall {
 public:
  WatchedCall(KernelStub& life, const CallLimits& limits);

  template <typename Stub, typename Request, typename Response>
  [[nodiscard]] absl::Status Unary(Stub& stub, UnaryMethod<Stub, Request, Response> method,
                                   const Request& request, Response& response) {
    const auto call = (stub.*method)(&context_, request, events_.queue());
    grpc::Status status;
    call->StartCall();
    response.Clear();
    call->Finish(&response, &status, nullptr);
    events_.Next();
    return Result(status);
  }

  // `take` is given each message and returns whether it wants more. When it wants no more, the call
  // is cancelled and returns CANCELLED.
  template <typename Stub, typename Request, typename Message, typename Take>
  [[nodiscard]] absl::Status Stream(Stub& stub, StreamMethod<Stub, Request, Message> method,
                                    const Request& request, const Take& take) {
    const auto reader = (stub.*method)(&context_, request, events_.queue());
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
