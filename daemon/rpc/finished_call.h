// A unary method that does not wait.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

namespace kiln {

// What such a method returns. Costs nothing, since gRPC runs the reactions of its own reactor right
// where they occur.
inline grpc::ServerUnaryReactor* FinishedCall(grpc::CallbackServerContext& call,
                                              grpc::Status status = grpc::Status::OK) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(std::move(status));
  return reactor;
}

}  // namespace kiln
