#include "client/rpc/watched_call.h"

#include <algorithm>

#include "client/rpc/status_details.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

// gRPC takes moments of this clock.
system_clock::time_point OnWallClock(steady_clock::time_point moment) {
  return system_clock::now() +
         std::chrono::duration_cast<system_clock::duration>(moment - steady_clock::now());
}

bool Answers(KernelStub& stub, std::chrono::milliseconds budget) {
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + budget);
  v1::LookupResponse response;
  // Any other failure is an answer, or the end of the connection, which the call itself reports.
  return stub.Lookup(&context, {}, &response).error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

bool ShowsLife(KernelStub& stub, std::chrono::milliseconds budget) {
  return Answers(stub, budget / 2) || Answers(stub, budget / 2);
}

WatchedCall::WatchedCall(KernelStub& life, const CallLimits& limits)
    : life_(life),
      quiet_time_(limits.answer_budget / 3),
      asking_time_(limits.answer_budget - quiet_time_) {
  if (limits.deadline.has_value()) context_.set_deadline(OnWallClock(*limits.deadline));
}

WatchedCall::~WatchedCall() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

std::optional<WatchedCall::Event> WatchedCall::Next(const Deadline& until) {
  Event event{};
  while (true) {
    steady_clock::time_point wake = steady_clock::now() + quiet_time_;
    if (until.has_value()) wake = std::min(wake, *until);
    switch (queue_.AsyncNext(&event.tag, &event.ok, OnWallClock(wake))) {
      case grpc::CompletionQueue::GOT_EVENT:
        return event;
      case grpc::CompletionQueue::SHUTDOWN:
        return std::nullopt;
      case grpc::CompletionQueue::TIMEOUT:
        break;
    }
    if (until.has_value() && steady_clock::now() >= *until) return std::nullopt;
    if (!is_wedged_ && !ShowsLife(life_, asking_time_)) {
      is_wedged_ = true;
      context_.TryCancel();  // its event ends the loop
    }
  }
}

absl::Status WatchedCall::Result(const grpc::Status& status) const {
  return is_wedged_ && !status.ok() ? WedgedStatus() : FromGrpc(status);
}

}  // namespace kiln
