#include "client/rpc/service_calls.h"

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include "client/rpc/status_details.h"
#include "client/rpc/watched_queue.h"
#include "client/rpc/wedged.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

WatchedQueue Watch(grpc::ClientContext& context, KernelStub& stub, const CallLimits& limits) {
  return WatchedQueue(context, limits.answer_budget, [&stub](std::chrono::milliseconds budget) {
    return ShowsLife(stub, budget);
  });
}

bool Answers(KernelStub& stub, std::chrono::milliseconds budget) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + budget);
  v1::LookupResponse response;
  // Any other failure is an answer, or the end of the connection, which the call itself reports.
  return stub.Lookup(&context, {}, &response).error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
}

// An answer that crossed with the verdict counts.
absl::Status Result(const WatchedQueue& events, const grpc::Status& status) {
  return events.IsWedged() && !status.ok() ? WedgedStatus() : FromGrpc(status);
}

// `prepare` is one of the stub's PrepareAsync… functions.
template <typename Request, typename Response, typename Prepare>
absl::Status CallUnary(KernelStub& stub, const Request& request, const CallLimits& limits,
                       Response& response, const Prepare& prepare) {
  grpc::ClientContext context;
  SetDeadline(context, limits.deadline);
  WatchedQueue events = Watch(context, stub, limits);
  const auto call = prepare(&context, request, events.queue());
  grpc::Status status;
  call->StartCall();
  response.Clear();
  call->Finish(&response, &status, nullptr);
  events.Next();
  return Result(events, status);
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
  return CallUnary(stub, request, limits, response,
                   [&](auto&&... arguments) { return stub.PrepareAsyncCompile(arguments...); });
}

absl::Status CallLookup(KernelStub& stub, const v1::LookupRequest& request,
                        const CallLimits& limits, v1::LookupResponse& response) {
  return CallUnary(stub, request, limits, response,
                   [&](auto&&... arguments) { return stub.PrepareAsyncLookup(arguments...); });
}

absl::Status CallListToolchains(KernelStub& stub, const CallLimits& limits,
                                v1::ListToolchainsResponse& response) {
  return CallUnary(stub, v1::ListToolchainsRequest(), limits, response, [&](auto&&... arguments) {
    return stub.PrepareAsyncListToolchains(arguments...);
  });
}

absl::Status CallFetch(KernelStub& stub, const Digest& digest, const CallLimits& limits,
                       std::string& content) {
  grpc::ClientContext context;
  SetDeadline(context, limits.deadline);
  WatchedQueue events = Watch(context, stub, limits);
  v1::FetchRequest request;
  request.set_digest(std::string(digest.Bytes()));
  const auto reader = stub.PrepareAsyncFetch(&context, request, events.queue());
  reader->StartCall(nullptr);
  bool is_open = events.Next()->ok;
  bool is_too_large = false;
  v1::FetchChunk chunk;
  DigestBuilder builder;
  content.clear();
  while (is_open) {
    reader->Read(&chunk, nullptr);
    is_open = events.Next()->ok;
    if (!is_open || is_too_large) continue;
    builder.Update(chunk.content());
    content += chunk.content();
    if (content.size() > limits::kBlobBytesMax) {
      is_too_large = true;
      context.TryCancel();
    }
  }
  grpc::Status status;
  reader->Finish(&status, nullptr);
  events.Next();
  if (!is_too_large) KILN_RETURN_IF_ERROR(Result(events, status));
  if (is_too_large || builder.Finish() != digest) {
    content.clear();
    return DataLoss("the daemon sent other bytes than those of {}", digest.Hex());
  }
  return absl::OkStatus();
}

}  // namespace kiln
