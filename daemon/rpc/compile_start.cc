#include "daemon/rpc/compile_start.h"

#include <absl/strings/cord.h>

#include <cassert>
#include <chrono>
#include <utility>

#include "daemon/messages/translate.h"
#include "daemon/observe/answer_log.h"
#include "daemon/rpc/kernel_calls.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"

namespace kiln {
namespace {

constexpr char kQuestionUrl[] = "kiln/question";

// A wrong request has no job of which IsQuestion could tell.
absl::Status MarkQuestion(absl::Status why) {
  why.SetPayload(kQuestionUrl, absl::Cord("1"));
  return why;
}
bool IsMarkedQuestion(const absl::Status& why) { return why.GetPayload(kQuestionUrl).has_value(); }

// Counts what CountingProvider does not hear of.
CompileAnswer Refuse(absl::Status why, const CompileJobPtr& job, bool is_question) {
  if (is_question) return {std::move(why), job};
  static Counter requests("requests", "");
  static Counter rejected("rejected", "");
  requests.Add();
  rejected.Add();
  return {std::move(why), job};
}

ActivityKind KindOf(const CompileResult& result) {
  if (result.failure() != nullptr) return ActivityKind::kFailed;
  if (result.outcome == Outcome::kCompiled) return ActivityKind::kCompiled;
  if (result.outcome == Outcome::kJoined) return ActivityKind::kJoined;
  const bool is_in_memory = result.tier.value_or(Tier::kMemory) == Tier::kMemory;
  return is_in_memory ? ActivityKind::kMemory : ActivityKind::kDisk;
}

uint64_t BytesOf(const Artifact& artifact) {
  uint64_t bytes = 0;
  for (const StageBlob& stage : artifact.stages) bytes += stage.blob.size_bytes();
  return bytes;
}

// Counts the answer for the caller's user and job, and logs it. Leases what a warm got.
AnswerRemarks Note(const RpcDependencies& parts, const CallContext& context,
                   const PreparedRequest& request, const absl::StatusOr<CompileResult>& answer,
                   std::chrono::microseconds waited = {}) {
  const CompileJob& job = *request.job;
  LogAnswer(context, request.job_name, &job, answer, waited);
  if (!answer.ok() || IsQuestion(context, job)) return {};
  const uid_t uid = context.principal.uid;
  const Artifact* artifact = answer->artifact();
  if (artifact != nullptr && IsAhead(request.priority)) {
    parts.activity.Note(uid, request.job_name, ActivityKind::kWarmed);
    return {.not_leased = !LeaseWarmed(parts, uid, job.key, BytesOf(*artifact))};
  }
  if (artifact != nullptr) parts.job_keys->Note(uid, request.job_name, job.key, true);
  const ActivityKind kind = KindOf(*answer);
  const bool is_spared = artifact != nullptr && kind != ActivityKind::kCompiled;
  parts.activity.Note(
      uid, request.job_name, kind,
      {1, is_spared ? artifact->provenance.compile_micros : 0, is_spared ? BytesOf(*artifact) : 0});
  if (kind != ActivityKind::kCompiled || !parts.activity.IsWarmed(uid, request.job_name)) {
    return {};
  }
  parts.activity.Note(uid, request.job_name, ActivityKind::kMissed);
  return {.missed_after_warm = true};
}

Prepared Check(const RpcDependencies& parts, v1::CompileRequest&& request) {
  if (request.job().size() > limits::kNameBytesMax) {
    return InvalidArgument("job has {} bytes; a job's name has at most {}", request.job().size(),
                           limits::kNameBytesMax);
  }
  auto prepared = std::make_shared<PreparedRequest>();
  KILN_ASSIGN_OR_RETURN(prepared->priority, FromProto(request.priority()));
  prepared->job_name = std::move(*request.mutable_job());
  KILN_ASSIGN_OR_RETURN(CompileRequest converted, FromProto(std::move(request)));
  KILN_ASSIGN_OR_RETURN(prepared->job, parts.resolver.Resolve(std::move(converted)));
  return prepared;
}

CallContext ContextOf(CallContext context, const PreparedRequest& request) {
  context.priority = request.priority;
  context.job = request.job_name;
  return context;
}

}  // namespace

std::optional<Digest> KeyOf(const CompileAnswer& answer) {
  if (answer.job == nullptr) return std::nullopt;
  return answer.job->key;
}

Prepared Prepare(const RpcDependencies& parts, v1::CompileRequest&& request) {
  const bool is_question = request.priority() >= v1::PRIORITY_WARM &&
                           request.cache_policy() == v1::CACHE_POLICY_ONLY_IF_CACHED;
  Prepared prepared = Check(parts, std::move(request));
  return prepared.ok() || !is_question ? prepared : MarkQuestion(prepared.status());
}

Prepared Prepare(const RpcDependencies& parts, std::string_view wire_bytes) {
  if (auto seen = parts.memo.Find(wire_bytes)) return seen;
  const uint64_t epoch = parts.memo.epoch();
  v1::CompileRequest request;
  KILN_RETURN_IF_ERROR(Parse(wire_bytes, request));
  KILN_ASSIGN_OR_RETURN(auto prepared, Prepare(parts, std::move(request)));
  parts.memo.Remember(wire_bytes, prepared, epoch);
  return prepared;
}

std::optional<CompileAnswer> FindAnswer(const RpcDependencies& parts, const CallContext& call,
                                        const Prepared& request) {
  if (!request.ok()) {
    LogAnswer(call, "", nullptr, request.status());
    return Refuse(request.status(), nullptr, IsMarkedQuestion(request.status()));
  }
  const CompileJobPtr& job = (*request)->job;
  const CallContext context = ContextOf(call, **request);
  auto pass = parts.gate.Enter();
  if (!pass.ok()) return Refuse(pass.status(), job, IsQuestion(context, *job));
  auto found = parts.provider.Find(context, job);
  if (!found) return std::nullopt;
  const AnswerRemarks remarks = Note(parts, context, **request, *found);
  return CompileAnswer{*std::move(found), job, *std::move(pass), remarks};
}

void StartCompile(const RpcDependencies& parts, const CallContext& call, const Prepared& request,
                  CompileAnswered answered) {
  assert(request.ok());
  const CompileJobPtr& job = (*request)->job;
  CallContext context = ContextOf(call, **request);
  auto pass = parts.gate.Enter();
  if (!pass.ok()) return answered(Refuse(pass.status(), job, IsQuestion(context, *job)));
  const auto note = [&parts, context, request = *request,
                     started = SystemClock().Now()](const absl::StatusOr<CompileResult>& result) {
    return Note(
        parts, context, *request, result,
        std::chrono::duration_cast<std::chrono::microseconds>(SystemClock().Now() - started));
  };
  parts.provider.Compile(std::move(context), job,
                         [pass = *std::move(pass), job, note,
                          answered = std::move(answered)](absl::StatusOr<CompileResult> result) {
                           const AnswerRemarks remarks = note(result);
                           answered({std::move(result), job, pass, remarks});
                         });
}

}  // namespace kiln
