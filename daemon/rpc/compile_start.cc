#include "daemon/rpc/compile_start.h"

#include <chrono>
#include <utility>

#include "daemon/rpc/translate.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// A deadline so far away that it would not fit in the steady clock is none.
constexpr auto kDeadlineMax = std::chrono::hours(24 * 365);

std::optional<SteadyTime> DeadlineOf(const grpc::CallbackServerContext& call) {
  const auto left = call.deadline() - std::chrono::system_clock::now();
  if (left > kDeadlineMax) return std::nullopt;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
}

absl::StatusOr<CompileJobPtr> Resolve(const ServiceParts& parts, v1::CompileRequest&& request,
                                      CallContext& context) {
  if (request.job().size() > limits::kNameBytesMax) {
    return InvalidArgument("job has {} bytes; a job's name has at most {}", request.job().size(),
                           limits::kNameBytesMax);
  }
  KILN_ASSIGN_OR_RETURN(context.priority, FromProto(request.priority()));
  context.job = std::move(*request.mutable_job());
  KILN_ASSIGN_OR_RETURN(CompileRequest converted, FromProto(std::move(request)));
  return parts.resolver.Resolve(std::move(converted));
}

}  // namespace

CallContext CallContextOf(const grpc::CallbackServerContext& call, const Principal& principal) {
  CallContext context;
  context.principal = principal;
  context.deadline = DeadlineOf(call);
  return context;
}

void StartCompile(const ServiceParts& parts, CallContext context, v1::CompileRequest&& request,
                  CompileAnswered answered) {
  if (absl::Status entered = parts.gate.Enter(); !entered.ok()) {
    parts.refused.fetch_add(1, std::memory_order_relaxed);
    return answered({std::move(entered), nullptr});
  }
  absl::StatusOr<CompileJobPtr> job = Resolve(parts, std::move(request), context);
  if (!job.ok()) {
    parts.refused.fetch_add(1, std::memory_order_relaxed);
    parts.gate.Leave();
    return answered({std::move(job).status(), nullptr});
  }
  parts.provider.Compile(std::move(context), *job,
                         [&gate = parts.gate, job = *job,
                          answered = std::move(answered)](absl::StatusOr<CompileResult> result) {
                           answered({std::move(result), job});
                           gate.Leave();
                         });
}

}  // namespace kiln
