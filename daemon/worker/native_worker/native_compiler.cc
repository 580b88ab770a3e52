#include "daemon/worker/native_worker/native_compiler.h"

namespace kiln {

WorkerReply FailedReply(std::string stage, const absl::Status& status, std::string output) {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kFailed;
  const bool is_decided = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  reply.failure.code = is_decided ? status.code() : absl::StatusCode::kInternal;
  reply.failure.deterministic = is_decided;
  reply.failure.stage = std::move(stage);
  reply.failure.message = std::string(Message(status));
  reply.failure.output = std::move(output);
  return reply;
}

}  // namespace kiln
