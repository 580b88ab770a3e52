// One call, watched for a daemon that stopped answering.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <chrono>
#include <memory>
#include <optional>

#include "client/rpc/retry.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/status.h"

namespace kiln {

using KernelStub = v1::KernelService::Stub;

// One of a stub's PrepareAsync… functions.
template <typename Stub, typename Request, typename Response>
using UnaryMethod = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
template <typename Stub, typename Request, typename Message>
using StreamMethod = std::unique_ptr<grpc::ClientAsyncReader<Message>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// How long the daemon may be silent, and the caller's deadline.
struct CallLimits {
  std::chrono::milliseconds answer_budget;
  Deadline deadline;
};

// Whether the daemon answers an empty call within `budget`; any answer counts. Asks twice, each
// time for half of `budget`: this process may have been stopped during the first time.
[[nodiscard]] bool ShowsLife(KernelStub& stub, std::chrono::milliseconds budget);

// A daemon that is stopped, deadlocked or starved looks like a daemon that compiles. A third of the
// answer budget after the last event, the call asks `life`, a stub on the same connection, whether
// the daemon lives. Without an answer in the rest of the budget it cancels itself. Blocks; one use
// is one call. One thread uses it; it starts none.
class WatchedCall {
 public:
  struct Event {
    void* tag;
    bool ok;
  };

  WatchedCall(KernelStub& life, const CallLimits& limits);
  // Waits for what is still under way; the caller has cancelled or finished it.
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

  template <typename Stub, typename Request, typename Response>
  [[nodiscard]] absl::Status Unary(Stub& stub, UnaryMethod<Stub, Request, Response> method,
                                   const Request& request, Response& response) {
    const auto call = (stub.*method)(&context_, request, &queue_);
    grpc::Status status;
    call->StartCall();
    response.Clear();
    call->Finish(&response, &status, nullptr);
    Next();
    return Result(status);
  }

  // `take` is given each message and returns whether it wants more. When it wants no more, the call
  // is cancelled and returns CANCELLED.
  template <typename Stub, typename Request, typename Message, typename Take>
  [[nodiscard]] absl::Status Stream(Stub& stub, StreamMethod<Stub, Request, Message> method,
                                    const Request& request, const Take& take) {
    const auto reader = (stub.*method)(&context_, request, &queue_);
    reader->StartCall(nullptr);
    bool is_open = Next()->ok;
    bool is_wanted = true;
    Message message;
    while (is_open) {
      reader->Read(&message, nullptr);
      is_open = Next()->ok;
      if (is_open && is_wanted) is_wanted = take(message);
      if (!is_wanted) context_.TryCancel();
    }
    grpc::Status status;
    reader->Finish(&status, nullptr);
    Next();
    return Result(status);
  }

  // The rest is for a call that its owner drives.
  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  // The next event, or nothing once `until` has passed.
  std::optional<Event> Next(const Deadline& until = std::nullopt);
  // What the call ended with. An answer that crossed with the verdict counts.
  absl::Status Result(const grpc::Status& status) const;

 private:
  KernelStub& life_;
  const std::chrono::milliseconds quiet_time_;
  const std::chrono::milliseconds asking_time_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  bool is_wedged_ = false;
};

}  // namespace kiln
