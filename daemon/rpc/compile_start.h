// The way of one request from the wire into the compile path; what a call and an item of a stream
// have in common.
#pragma once

#include <grpcpp/server_context.h>

#include <functional>

#include "daemon/rpc/service_parts.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// The answer, and what the request wanted of it. `job` is absent where the request did not even get
// a key.
struct CompileAnswer {
  absl::StatusOr<CompileResult> result;
  CompileJobPtr job;
};
using CompileAnswered = std::function<void(CompileAnswer)>;

// Who calls, until when: a context without priority and job, which a request brings itself.
CallContext CallContextOf(const grpc::CallbackServerContext& call, const Principal& principal);

// Translates, resolves and starts; takes the message apart. Calls `answered` exactly once, on any
// thread, possibly before it returns. A request is inside the gate until then.
void StartCompile(const ServiceParts& parts, CallContext context, v1::CompileRequest&& request,
                  CompileAnswered answered);

}  // namespace kiln
