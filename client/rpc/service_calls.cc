#include "client/rpc/service_calls.h"

#include "client/rpc/watched_call.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

bool Answers(KernelStub& stub, std::chrono::milliseconds budget) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + budget);
  v1::LookupResponse response;
  // Any other failure is an answer, or the end of the connection, which the call itself reports.
  return stub.Lookup(&context, {}, &response).error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

void SetDeadline(grpc::ClientContext& context, const Deadline& deadline) {
  if (!deadline.has_value()) return;
  using std::chrono::system_clock;
  context.set_deadline(system_clock::now() + std::chrono::duration_cast<system_clock::duration>(
                                                 *deadline - std::chrono::steady_clock::now()));
}

bool ShowsLife(KernelStub& stub, std::chrono::milliseconds budget) {
  return Answers(stub, budget / 2) || Answers(stub, budget / 2);
}

absl::Status CallFetch(KernelStub& stub, const Digest& digest, const CallLimits& limits,
                       std::string& content) {
  v1::FetchRequest request;
  request.set_digest(std::string(digest.Bytes()));
  DigestBuilder builder;
  content.clear();
  const absl::Status status =
      WatchedCall(stub, limits)
          .Stream(stub, &KernelStub::PrepareAsyncFetch, request, [&](const v1::FetchChunk& chunk) {
            builder.Update(chunk.content());
            content += chunk.content();
            return content.size() <= limits::kBlobBytesMax;
          });
  const bool is_too_large = content.size() > limits::kBlobBytesMax;
  if (!is_too_large) KILN_RETURN_IF_ERROR(status);
  if (is_too_large || builder.Finish() != digest) {
    content.clear();
    return DataLoss("the daemon sent other bytes than those of {}", digest.Hex());
  }
  return absl::OkStatus();
}

}  // namespace kiln
