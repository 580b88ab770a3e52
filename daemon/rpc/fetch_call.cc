#include "daemon/rpc/fetch_call.h"

#include <algorithm>
#include <utility>

#include "daemon/rpc/status.h"
#include "storage/base/limits.h"

namespace kiln {

FetchCall* FetchCall::Start(const RpcDependencies& parts, const CallContext& context,
                            const v1::FetchRequest& request) {
  auto* call = new FetchCall;
  const absl::StatusOr<Digest> digest = Digest::FromBytes(request.digest());
  if (!digest.ok()) {
    call->Finish(ToGrpcStatus(Annotate(digest.status(), "digest")));
    return call;
  }
  // The call stays until Finish, which nothing else calls.
  parts.executor.Run(
      [call, &parts, context, digest = *digest] { call->Read(parts, context, digest); });
  return call;
}

void FetchCall::Read(const RpcDependencies& parts, CallContext context, const Digest& digest) {
  context.cancellation = cancellation_;
  absl::StatusOr<FoundBlob> found = parts.blobs.Get(context, digest);
  if (!found.ok()) return Finish(ToGrpcStatus(found.status()));
  blob_ = std::move(found->blob);
  WriteNext();
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
