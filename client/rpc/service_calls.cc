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

absl::Status CallCompile(KernelStub& stub, const v1::CompileRequest& request,
                         const CallLimits& limits, v1::CompileResponse& response) {
  return WatchedCall(stub, limits).Unary(request, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncCompile(arguments...);
  });
}

absl::Status CallLookup(KernelStub& stub, const v1::LookupRequest& request,
                        const CallLimits& limits, v1::LookupResponse& response) {
  return WatchedCall(stub, limits).Unary(request, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncLookup(arguments...);
  });
}

absl::Status CallGetOwn(KernelStub& stub, const v1::GetOwnRequest& request,
                        const CallLimits& limits, v1::GetOwnResponse& response) {
  return WatchedCall(stub, limits).Unary(request, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncGetOwn(arguments...);
  });
}

absl::Status CallPutOwn(KernelStub& stub, const v1::PutOwnRequest& request,
                        const CallLimits& limits) {
  v1::PutOwnResponse response;
  return WatchedCall(stub, limits).Unary(request, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncPutOwn(arguments...);
  });
}

absl::Status CallNearest(KernelStub& stub, const v1::NearestRequest& request,
                         const CallLimits& limits, v1::NearestResponse& response) {
  return WatchedCall(stub, limits).Unary(request, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncNearest(arguments...);
  });
}

absl::Status CallListToolchains(KernelStub& stub, const CallLimits& limits,
                                v1::ListToolchainsResponse& response) {
  return WatchedCall(stub, limits)
      .Unary(v1::ListToolchainsRequest(), response,
             [&](auto&&... arguments) { return stub.PrepareAsyncListToolchains(arguments...); });
}

absl::Status CallFetch(KernelStub& stub, const Digest& digest, const CallLimits& limits,
                       std::string& content) {
  v1::FetchRequest request;
  request.set_digest(std::string(digest.Bytes()));
  DigestBuilder builder;
  content.clear();
  const absl::Status status =
      WatchedCall(stub, limits)
          .Stream<v1::FetchChunk>(
              request, [&](auto&&... arguments) { return stub.PrepareAsyncFetch(arguments...); },
              [&](const v1::FetchChunk& chunk) {
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
