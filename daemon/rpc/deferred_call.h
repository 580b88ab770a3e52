// What unary methods of gRPC share: who calls, and the call that finishes now or later.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <utility>

#include "daemon/rpc/byte_budget.h"
#include "daemon/rpc/status.h"
#include "storage/base/call_context.h"
#include "storage/base/executor.h"

namespace kiln {

// The caller and the deadline of a gRPC call. Priority and job are missing: a request has them.
inline CallContext CallContextOf(const grpc::CallbackServerContext& call,
                                 const Principal& principal) {
  // A deadline so far away that it would not fit in the steady clock is none.
  constexpr auto kDeadlineMax = std::chrono::hours(24 * 365);
  CallContext context;
  context.principal = principal;
  const auto left = call.deadline() - std::chrono::system_clock::now();
  if (left <= kDeadlineMax) {
    context.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
  }
  return context;
}

// The reactor of a method that does not wait. Costs nothing: gRPC runs the reactions of its own
// reactor right where they occur.
inline grpc::ServerUnaryReactor* FinishedCall(grpc::CallbackServerContext& call,
                                              grpc::Status status = grpc::Status::OK) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

// A method whose work blocks. Runs the work on an executor and finishes with its status. Deletes
// itself in OnDone.
class DeferredCall final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<absl::Status(const CallContext&)>;

  // Started; gRPC takes it from here. `work` may use the method's request and response, which live
  // as long.
  static DeferredCall* Start(Executor& executor, CallContext context, Work work) {
    return StartAnswered(std::move(context), [&](const CallContext& cancellable, Answer answer) {
      executor.Run([cancellable, work = std::move(work), answer = std::move(answer)] {
        answer(work(cancellable), nullptr);
      });
    });
  }

  // Starts work that answers later: it calls its Answer once, from any thread. The share is given
  // back when gRPC is through with the answer.
  using Answer = std::function<void(const absl::Status&, ByteBudget::Share)>;
  static DeferredCall* StartAnswered(CallContext context,
                                     const std::function<void(const CallContext&, Answer)>& work) {
    auto* call = new DeferredCall;
    context.cancellation = call->cancellation_;
    work(context, [call](const absl::Status& status, ByteBudget::Share share) {
      call->share_ = std::move(share);
      call->Finish(ToGrpcStatus(status));
    });
    return call;
  }

  // Runs work that fills `response`, and charges `unread` for it until the answer is sent.
  template <class Response>
  static DeferredCall* StartCharged(
      CallContext context, ByteBudget& unread, Response& response,
      const std::function<void(const CallContext&, std::function<void(const absl::Status&)>)>&
          work) {
    return StartAnswered(std::move(context), [&](const CallContext& cancellable, Answer answer) {
      work(cancellable,
           [&unread, &response, answer = std::move(answer)](const absl::Status& status) {
             if (!status.ok()) return answer(status, nullptr);
             // The message, and what gRPC makes of it.
             auto share = unread.Take(2 * response.ByteSizeLong());
             if (share.ok()) return answer(status, *std::move(share));
             response = Response();
             answer(share.status(), nullptr);
           });
    });
  }

  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Cancellation cancellation_;
  ByteBudget::Share share_;  // of the answer
};

}  // namespace kiln
