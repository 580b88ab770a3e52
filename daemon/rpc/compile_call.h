// One unary Compile.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>

#include "daemon/rpc/compile_start.h"

namespace kiln {

// Works on bytes rather than messages: a request that was seen before is not even parsed, and an
// answer shares the artifact's content. Waits for its answer without holding a thread.
//
// An answer that is there before the method returns (a hit) finishes on gRPC's inlineable default
// reactor; only a call that has to wait gets a reactor of its own, whose reactions cost a hop to
// another thread.
//
// Lives until both the compile path and gRPC are through with it. Thread-safe.
class CompileCall : public std::enable_shared_from_this<CompileCall> {
 public:
  CompileCall(const RpcDependencies& parts, grpc::CallbackServerContext& call,
              grpc::ByteBuffer& response)
      : parts_(parts), call_(call), response_(response) {}

  // The reactor that gRPC wants from the method.
  grpc::ServerUnaryReactor* Start(const Principal& principal, const grpc::ByteBuffer& request);
  void Cancel() { cancellation_.Cancel(); }

 private:
  class Waiting;

  void Finish(const CompileAnswer& answer);

  const RpcDependencies& parts_;
  grpc::CallbackServerContext& call_;
  grpc::ByteBuffer& response_;
  Cancellation cancellation_;

  RequestGate::Pass pass_;  // until gRPC is through with the answer

  std::mutex mutex_;
  std::optional<grpc::Status> finished_;
  Waiting* waiting_ = nullptr;
};

}  // namespace kiln
