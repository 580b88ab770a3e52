#include "daemon/rpc/compile_call.h"

#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/rpc/compile_start.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/status.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Takes the piece, and keeps what it shares alive.
grpc::Slice ToSlice(ReplyPiece piece) {
  auto* kept = new ReplyPiece(std::move(piece));
  const std::string_view bytes = BytesOf(*kept);
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* held) { delete static_cast<ReplyPiece*>(held); }, kept);
}

// To copy as little as this costs less than what keeps each piece alive.
constexpr size_t kCopiedBytesMax = 64 * limits::kKiB;

grpc::Slice CopyOf(const ReplyPieces& pieces, size_t size_bytes) {
  const grpc::Slice slice(grpc_slice_malloc(size_bytes), grpc::Slice::STEAL_REF);
  auto* end = const_cast<uint8_t*>(slice.begin());
  for (const ReplyPiece& piece : pieces) {
    const std::string_view bytes = BytesOf(piece);
    end = std::copy(bytes.begin(), bytes.end(), end);
  }
  return slice;
}

grpc::Status FillResponse(const CompileAnswer& answer, grpc::ByteBuffer& response) {
  CompileReply reply = SerializeAnswer(answer);
  if (const auto* error = std::get_if<v1::RpcStatus>(&reply)) return ToGrpcStatus(*error);
  auto& pieces = std::get<ReplyPieces>(reply);
  size_t size_bytes = 0;
  for (const ReplyPiece& piece : pieces) size_bytes += BytesOf(piece).size();
  if (size_bytes <= kCopiedBytesMax) {
    const grpc::Slice slice = CopyOf(pieces, size_bytes);
    grpc::ByteBuffer(&slice, 1).Swap(&response);
    return grpc::Status::OK;
  }
  std::vector<grpc::Slice> slices;
  for (ReplyPiece& piece : pieces) slices.push_back(ToSlice(std::move(piece)));
  grpc::ByteBuffer(slices.data(), slices.size()).Swap(&response);
  return grpc::Status::OK;
}

Prepared PrepareBytes(const RpcDependencies& parts, const grpc::ByteBuffer& request) {
  grpc::Slice slice;
  if (!request.TrySingleSlice(&slice).ok() && !request.DumpToSingleSlice(&slice).ok()) {
    return Internal("the request's bytes cannot be read");
  }
  return Prepare(parts, {reinterpret_cast<const char*>(slice.begin()), slice.size()});
}

// Deletes itself in OnDone.
class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  WaitingCall(const CallContext& context, grpc::ByteBuffer& response)
      : cancellation_(context.cancellation), response_(response) {}

  void Answer(const CompileAnswer& answer) {
    pass_ = answer.pass;
    Finish(FillResponse(answer, response_));
  }
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Cancellation cancellation_;
  grpc::ByteBuffer& response_;
  RequestGate::Pass pass_;  // until gRPC is through with the answer
};

}  // namespace

grpc::ServerUnaryReactor* StartCompileCall(const RpcDependencies& parts, const Principal& principal,
                                           grpc::CallbackServerContext& call,
                                           const grpc::ByteBuffer& request,
                                           grpc::ByteBuffer& response) {
  const Prepared prepared = PrepareBytes(parts, request);
  const CallContext context = CallContextOf(call, principal);
  if (const auto found = FindAnswer(parts, context, prepared)) {
    return FinishedCall(call, FillResponse(*found, response));
  }
  auto* waiting = new WaitingCall(context, response);
  StartCompile(parts, context, prepared,
               [waiting](const CompileAnswer& answer) { waiting->Answer(answer); });
  return waiting;
}

}  // namespace kiln
