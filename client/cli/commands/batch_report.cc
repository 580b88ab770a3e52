#include "client/cli/commands/batch_report.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"

namespace kiln::cli {
namespace {

constexpr size_t kShortKeyDigits = 12;

double Milliseconds(std::chrono::microseconds duration) {
  return static_cast<double>(duration.count()) / 1000;
}

// What the answer cost: a compile its time in the worker, anything else the time that it was waited
// for. With many under way at once a compile is mostly waited for because of the others.
std::chrono::microseconds CostOf(const BatchAnswer& answer) {
  if (!answer.answer.ok() || answer.answer->outcome() != v1::OUTCOME_COMPILED) {
    return answer.duration;
  }
  return std::chrono::microseconds(
      static_cast<int64_t>(answer.answer->provenance().compile_micros()));
}

Style StyleOf(v1::Outcome outcome) {
  return outcome == v1::OUTCOME_COMPILED ? Style::kNew : Style::kGood;
}

std::vector<Cell> RowOf(const BatchAnswer& answer, bool is_aligned) {
  if (!answer.answer.ok()) {
    return {answer.name,      answer.target,    Cell("failed", Style::kBad),
            std::string("-"), std::string("-"), CodeName(answer.answer.status().code())};
  }
  const v1::CompileResponse& response = *answer.answer;
  const std::string key = Hex(response.key());
  return {answer.name,
          answer.target,
          Cell(std::string(OutcomeName(response.outcome())), StyleOf(response.outcome())),
          fmt::format("{:.1f}", Milliseconds(CostOf(answer))),
          std::to_string(BytesOf(response)),
          Cell(is_aligned ? key.substr(0, kShortKeyDigits) : key, Style::kDim)};
}

// The key also of what failed, where the daemon got as far as computing it.
Json KeyOf(const BatchAnswer& answer) {
  const std::string key =
      answer.answer.ok() ? answer.answer->key() : RequestKeyOf(answer.answer.status());
  return key.empty() ? Json(nullptr) : Json(Hex(key));
}

void PrintNearest(Console& console, const v1::NearestResponse& nearest) {
  console.err << "  nearest in the cache: " << Hex(nearest.key()) << '\n';
  for (const v1::RequestDifference& one : nearest.differences()) {
    console.err << "    " << Printable(one.field()) << ": asked " << Printable(one.asked())
                << ", stored " << Printable(one.stored()) << '\n';
  }
}

Json TierOf(const BatchAnswer& answer) {
  if (!answer.answer.ok() || answer.answer->tier() == v1::TIER_UNSPECIFIED) return nullptr;
  return TierName(answer.answer->tier());
}

void AddFailure(const absl::Status& status, Json& json) {
  json["error"] = Message(status);
  json["code"] = CodeName(status.code());
  if (const auto diagnostics = DiagnosticsOf(status)) json["diagnostics"] = ToJson(*diagnostics);
}

// The code in front; gRPC's own words for some codes are nothing but the code once more.
absl::Status WithCode(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) {
    return DeadlineExceeded("DEADLINE_EXCEEDED: the time that --timeout gives is over");
  }
  return Annotate(status, CodeName(status.code()));
}

}  // namespace

Json ToJson(const BatchAnswer& answer) {
  Json json;
  json["name"] = answer.name;
  json["key"] = KeyOf(answer);
  json["outcome"] = answer.answer.ok() ? OutcomeName(answer.answer->outcome()) : "failed";
  json["tier"] = TierOf(answer);
  json["ms"] = Milliseconds(CostOf(answer));
  json["bytes"] = answer.answer.ok() ? BytesOf(*answer.answer) : 0;
  json["error"] = nullptr;
  if (!answer.answer.ok()) AddFailure(answer.answer.status(), json);
  if (answer.nearest) {
    json["nearest"] = {{"key", Hex(answer.nearest->key())},
                       {"differences", ToJson(*answer.nearest).at("differences")}};
  }
  json["wait_ms"] = Milliseconds(answer.duration);
  if (!answer.target.empty()) json["target"] = answer.target;
  if (answer.line != 0) json["line"] = answer.line;
  if (!answer.file.empty() && answer.answer.ok()) json["file"] = answer.file;
  return json;
}

Json ToJson(const BatchCounts& counts, const absl::Status& ended) {
  Json summary;
  summary["requests"] = counts.requests;
  summary["hit"] = counts.hit;
  summary["joined"] = counts.joined;
  summary["compiled"] = counts.compiled;
  summary["failed"] = counts.failed;
  summary["ms"] = Milliseconds(counts.wall);
  summary["bytes"] = counts.bytes;
  summary["error"] = ended.ok() ? Json(nullptr) : Json(Summarize(ended));
  return {{"summary", std::move(summary)}};
}

BatchReport::BatchReport(Session& session, const Clock& clock, Detail detail,
                         std::optional<uint64_t> total)
    : session_(session),
      detail_(detail),
      table_(session.console(),
             {{"KERNEL"}, {"TARGET"}, {"OUTCOME"}, {"MS", true}, {"BYTES", true}, {"KEY"}}),
      progress_(session.console(), clock, total) {}

void BatchReport::OnAnswer(const BatchAnswer& answer) {
  ++answers_;
  if (!answer.answer.ok()) ++failures_;
  if (session_.json()) {
    session_.console().out << Dump(ToJson(answer)) << std::endl;
    return;
  }
  if (!answer.answer.ok()) {
    progress_.Clear();
    PrintCompileFailure(session_.console(), answer.name, answer.source_file,
                        answer.answer.status());
    if (answer.nearest) PrintNearest(session_.console(), *answer.nearest);
  }
  if (detail_ == Detail::kEveryAnswer) {
    table_.AddRow(RowOf(answer, session_.console().aligned));
  }
  progress_.Update(answers_, failures_ == 0 ? "" : fmt::format("{} failed", failures_));
}

ExitCode BatchReport::Finish(const BatchCounts& counts, const absl::Status& ended,
                             std::string_view requests) {
  Console& console = session_.console();
  progress_.Clear();
  table_.Flush();
  if (session_.json()) {
    console.out << Dump(ToJson(counts, ended)) << std::endl;
  } else {
    console.err << fmt::format("{} in {}: {} hit, {} joined, {} compiled, {} failed, {}\n",
                               counts.requests, FormatDuration(counts.wall), counts.hit,
                               counts.joined, counts.compiled, counts.failed,
                               FormatBytes(counts.bytes));
  }
  if (counts.requests == 0 && ended.ok() && !requests.empty()) {
    console.err << "kiln: " << Printable(requests)
                << ": there are no requests in it, so nothing was compiled\n";
  }
  if (!ended.ok()) {
    const ExitCode code = Fail(console, "stopped early", WithCode(ended));
    if (code == kCouldNotRun) return code;
  }
  return counts.failed == 0 && ended.ok() ? kOk : kFailed;
}

}  // namespace kiln::cli
