#include "daemon/observe/answer_log.h"

#include "storage/base/clock.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

// A user decides how long a reason is.
constexpr size_t kWhyBytesMax = 256;

// What a client brings about without a compile.
bool IsRefusal(const CallContext& context, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return !StillWanted(context, SystemClock()).ok();  // otherwise the daemon's own limit
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

struct Words {
  std::string_view message;
  bool is_debug = false;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string why = {};
};

Words WordsOf(const CallContext& context, const absl::StatusOr<CompileResult>& answer) {
  if (!answer.ok()) {
    return {"request failed", IsRefusal(context, answer.status()), answer.status().code(),
            std::string(Message(answer.status()))};
  }
  const bool is_fresh = answer->outcome == Outcome::kCompiled;
  if (const CompileFailure* failure = answer->failure()) {
    return {"compile failed", !is_fresh, failure->code,
            fmt::format("{}: {}", failure->stage, failure->message)};
  }
  if (is_fresh) return {"compiled"};
  return {answer->outcome == Outcome::kJoined ? "joined" : "hit", /*is_debug=*/true};
}

std::string_view KernelOf(const CompileJob& job, const absl::StatusOr<CompileResult>& answer) {
  const Artifact* artifact = answer.ok() ? answer->artifact() : nullptr;
  if (artifact != nullptr && !artifact->metadata.name.empty()) return artifact->metadata.name;
  return job.request.source.name;
}

// A compile's time in its worker; otherwise how long the caller waited.
std::chrono::duration<double, std::milli> TimeOf(const absl::StatusOr<CompileResult>& answer,
                                                 std::chrono::microseconds waited) {
  if (!answer.ok() || answer->outcome != Outcome::kCompiled || answer->artifact() == nullptr) {
    return waited;
  }
  return std::chrono::microseconds(answer->artifact()->provenance.compile_micros);
}

}  // namespace

void LogAnswer(const CallContext& context, std::string_view job_name, const CompileJob* job,
               const absl::StatusOr<CompileResult>& answer, std::chrono::microseconds waited) {
  const bool is_plain_hit = answer.ok() && answer->outcome != Outcome::kCompiled;
  if (is_plain_hit && !LogsDebug()) return;
  const Words words = WordsOf(context, answer);
  if (words.is_debug && !LogsDebug()) return;
  static const CompileJob kNone{};
  const CompileJob& known = job == nullptr ? kNone : *job;
  (words.is_debug ? LogDebug : LogInfo)(
      words.message, {{"key", job == nullptr ? "" : job->key.Hex()},
                      {"kernel", KernelOf(known, answer)},
                      {"target", known.request.target.ToString()},
                      {"toolchain", known.toolchain == nullptr ? "" : known.toolchain->Name()},
                      {"uid", context.principal.uid},
                      {"job", job_name},
                      {"ms", fmt::format("{:.1f}", TimeOf(answer, waited).count())},
                      {"code", absl::StatusCodeToString(words.code)},
                      {"why", std::string_view(words.why).substr(0, kWhyBytesMax)}});
}

}  // namespace kiln
