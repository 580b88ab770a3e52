#include "daemon/worker/native/native_compiler.h"

namespace kiln {

uint64_t MicrosSince(std::chrono::steady_clock::time_point started) {
  const auto took = std::chrono::steady_clock::now() - started;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

WorkerReply FailedReply(std::string stage, const absl::Status& status, std::string output) {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kFailed;
  const bool is_decided = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  const bool is_known =
      is_decided || absl::IsUnavailable(status) || absl::IsFailedPrecondition(status);
  reply.failure.code = is_known ? status.code() : absl::StatusCode::kInternal;
  reply.failure.deterministic = is_decided;
  reply.failure.stage = std::move(stage);
  reply.failure.message = std::string(Message(status));
  reply.failure.output = std::move(output);
  return reply;
}

absl::Status OfThisMachine(const absl::Status& trouble) {
  return Unavailable("{}", Message(trouble));
}

}  // namespace kiln
