#include "daemon/rpc/fetch_call.h"

#include <algorithm>
#include <utility>

#include "daemon/rpc/kernel_calls.h"
#include "daemon/rpc/status.h"
#include "storage/base/limits.h"

namespace kiln {

FetchCall* FetchCall::Start(const RpcDependencies& parts, CallContext context,
                            const v1::FetchRequest& request) {
  auto* call = new FetchCall;
  context.cancellation = call->cancellation_;
  // The call stays until Finish, which nothing else calls.
  Fetch(parts, context, request, [call](absl::StatusOr<Blob> found) {
    if (!found.ok()) return call->Finish(ToGrpcStatus(found.status()));
    call->blob_ = *std::move(found);
    call->WriteNext();
  });
  return call;
}

void FetchCall::WriteNext() {
  const std::string_view rest = blob_.bytes().substr(sent_bytes_);
  const std::string_view next = rest.substr(0, std::min(rest.size(), limits::kFetchChunkBytes));
  chunk_.set_content(next.data(), next.size());
  sent_bytes_ += next.size();
  StartWrite(&chunk_);
}

void FetchCall::OnWriteDone(bool ok) {
  if (!ok) return Finish(grpc::Status::CANCELLED);
  if (sent_bytes_ == blob_.size_bytes()) return Finish(grpc::Status::OK);
  WriteNext();
}

}  // namespace kiln
