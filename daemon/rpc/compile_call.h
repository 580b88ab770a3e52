// One unary Compile.
#pragma once

#include <absl/container/inlined_vector.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/slice.h>

#include <string_view>

#include "daemon/rpc/byte_budget.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "storage/base/call_context.h"

namespace kiln {

// Works on bytes rather than messages: a request that was seen before is not even parsed, and a
// large answer shares the artifact's content. Waits for its answer without holding a thread.
//
// An answer that needs no compile (a hit) finishes on gRPC's inlineable default reactor; only a
// call that has to wait gets a reactor of its own, whose reactions cost a hop to another thread.
//
// Returns the reactor that gRPC wants from the method.
grpc::ServerUnaryReactor* StartCompileCall(const RpcDependencies& parts, const Principal& principal,
                                           ByteBudget& unread, grpc::CallbackServerContext& call,
                                           const grpc::ByteBuffer& request,
                                           grpc::ByteBuffer& response);

using ReplySlices = absl::InlinedVector<grpc::Slice, 4>;
// Adds the pieces as gRPC sends them. They and their share of the budget live until they are sent.
void AppendSlices(ReplyPieces pieces, ByteBudget::Share share, ReplySlices& slices);

// The buffer's bytes in one piece, which `slice` keeps. Empty where they cannot be read.
std::string_view ToSingleSlice(const grpc::ByteBuffer& buffer, grpc::Slice& slice);

}  // namespace kiln
