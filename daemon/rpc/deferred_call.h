// A unary method whose work blocks.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "daemon/rpc/status.h"
#include "storage/base/call_context.h"
#include "storage/base/executor.h"

namespace kiln {

// Runs the work on an executor and finishes with its status. Deletes itself in OnDone.
class DeferredCall final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<absl::Status(const CallContext&)>;

  // Started; gRPC takes it from here. `work` may use the method's request and response, which live
  // as long.
  static DeferredCall* Start(Executor& executor, CallContext context, Work work) {
    auto* call = new DeferredCall;
    context.cancellation = call->cancellation_;
    executor.Run([call, context = std::move(context), work = std::move(work)] {
      call->Finish(ToGrpcStatus(work(context)));
    });
    return call;
  }

  // The same for work that answers later, from any thread, by calling what it is given once.
  using Answer = std::function<void(const absl::Status&)>;
  static DeferredCall* StartAnswered(const std::function<void(Answer)>& work) {
    auto* call = new DeferredCall;
    work([call](const absl::Status& status) { call->Finish(ToGrpcStatus(status)); });
    return call;
  }

  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Cancellation cancellation_;
};

}  // namespace kiln
