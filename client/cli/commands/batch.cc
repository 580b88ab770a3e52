#include "client/cli/commands/batch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/file_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/table.h"
#include "client/cli/output/ticker.h"
#include "client/cli/output/told_kernels.h"
#include "client/cli/requests/ptxas_selector.h"
#include "client/cli/requests/retargeted.h"
#include "client/cli/requests/sass.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

using std::chrono::microseconds;

// Each explanation of a miss costs a search in the daemon.
constexpr int kExplainedMissesMax = 16;
// Names are held of so many hits of a warm, to say which of them were not leased.
constexpr size_t kHitNamesMax = 100'000;

// What was asked, and the answer.
struct Item {
  std::string name;
  std::string source_file;  // as it was given; "": the request has the text itself
  uint64_t line = 0;        // in the file of requests; 0: not from one
  std::string target;       // "" where the request could not be read
  std::string file;         // the name under which it is written; "" where nothing is
  RetargetedIr ir = RetargetedIr::kSame;
  bool is_known_refusal = false;
  SteadyTime sent;
  NamedCompilers compilers;                   // as the daemon was told
  std::vector<std::string> sass_stages;       // what was asked for, where "sass" is among it
  std::optional<v1::CompileRequest> request;  // where it asked for the cache alone

  absl::StatusOr<v1::CompileResponse> answer;
  microseconds duration{0};                    // from sending to answer, as this side saw it
  std::optional<v1::NearestResponse> nearest;  // the closest stored artifact to a miss
};

uint64_t BytesOf(const v1::CompileResponse& response) {
  uint64_t bytes = 0;
  for (const v1::StageBlob& stage : response.stages()) bytes += stage.size_bytes();
  return bytes;
}

double Milliseconds(microseconds duration) { return static_cast<double>(duration.count()) / 1000; }

// What the answer cost: a compile its time in the worker, anything else the time that it was waited
// for. With many requests under way, a compile mostly waits for the others.
microseconds CostOf(const Item& item) {
  if (!item.answer.ok() || item.answer->outcome() != v1::OUTCOME_COMPILED) return item.duration;
  return microseconds(static_cast<int64_t>(item.answer->provenance().compile_micros()));
}

std::vector<Cell> RowOf(const Item& item, size_t key_digits) {
  if (!item.answer.ok()) {
    return {
        item.name,        item.target,      Cell("failed", Style::kBad),
        std::string("-"), std::string("-"), absl::StatusCodeToString(item.answer.status().code()),
        std::string("-")};
  }
  const v1::CompileResponse& response = *item.answer;
  const std::string key = Hex(response.key());
  return {item.name,
          item.target,
          Cell(WordOf(response.outcome()),
               response.outcome() == v1::OUTCOME_COMPILED ? Style::kNew : Style::kGood),
          fmt::format("{:.1f}", Milliseconds(CostOf(item))),
          std::to_string(BytesOf(response)),
          Cell(key.substr(0, key_digits), Style::kDim),
          response.provenance().toolchain()};
}

Json NullIfEmpty(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// docs/cli.md lists the fields.
Json JsonOf(const Item& item) {
  const absl::Status& status = item.answer.status();
  const v1::CompileResponse none;
  const v1::CompileResponse& response = status.ok() ? *item.answer : none;
  Json json;
  json["name"] = item.name;
  json["key"] = NullIfEmpty(Hex(status.ok() ? response.key() : RequestKeyOf(status)));
  json["outcome"] = status.ok() ? WordOf(response.outcome()) : "failed";
  json["tier"] = NullIfEmpty(WordOf(response.tier()));
  json["toolchain"] = NullIfEmpty(response.provenance().toolchain());
  json["ms"] = Milliseconds(CostOf(item));
  json["bytes"] = BytesOf(response);
  json["error"] = nullptr;
  if (!status.ok()) {
    json["error"] = Message(status);
    json["code"] = absl::StatusCodeToString(status.code());
    if (const auto diagnostics = DiagnosticsOf(status)) json["diagnostics"] = ToJson(*diagnostics);
  }
  if (item.nearest) {
    json["nearest"] = {{"key", Hex(item.nearest->key())},
                       {"differences", ToJson(*item.nearest).at("differences")}};
  }
  json["wait_ms"] = Milliseconds(item.duration);
  if (!item.target.empty()) json["target"] = item.target;
  if (item.line != 0) json["line"] = item.line;
  if (item.ir == RetargetedIr::kDiffers) json["ir_differs"] = true;
  if (item.ir == RetargetedIr::kMayDiffer) json["ir_may_differ"] = true;
  if (!item.file.empty() && status.ok()) json["file"] = item.file;
  return json;
}

void PrintNearest(Console& console, const v1::NearestResponse& nearest) {
  console.err << "  nearest in the cache: " << Hex(nearest.key()) << '\n';
  for (const v1::RequestDifference& one : nearest.differences()) {
    console.err << "    " << Printable(one.field()) << ": asked " << Printable(one.asked())
                << ", stored " << Printable(one.stored()) << '\n';
  }
}

// The code in front. gRPC's message for a deadline is only the code once more.
absl::Status WithCode(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) {
    return DeadlineExceeded("DEADLINE_EXCEEDED: the time that --timeout gives is over");
  }
  return Annotate(status, absl::StatusCodeToString(status.code()));
}

class Batch {
 public:
  Batch(Client& client, Session& session, NamedRequestSource next, const BatchOptions& options)
      : client_(client),
        session_(session),
        console_(session.console()),
        next_(std::move(next)),
        options_(options),
        call_(session.Call()),
        absent_compilers_(client, call_),
        table_(console_, {{"KERNEL", false, /*is_elastic=*/true},
                          {"TARGET"},
                          {"OUTCOME"},
                          {"MS", true},
                          {"BYTES", true},
                          {"KEY"},
                          {"TOOLCHAIN", false, /*is_elastic=*/true}}),
        progress_(console_, clock_, options.total,
                  !options.is_warming ? ProgressLines::kNone
                  : session.json()    ? ProgressLines::kJson
                                      : ProgressLines::kText) {
    call_.fetch_content = !options.is_warming;
  }

  ExitCode Run() {
    const SteadyTime started = clock_.Now();
    progress_.Update(0);
    absl::Status ended = AskAll();
    if (!ended.ok() && options_.requests.empty()) ReportUnsent(ended);
    const auto wall = std::chrono::duration_cast<microseconds>(clock_.Now() - started);
    if (options_.output != nullptr && !options_.requests.empty()) {
      const absl::Status written = options_.output->FinishIndex();
      if (ended.ok()) ended = written;
    }
    return Finish(wall, ended);
  }

 private:
  absl::Status AskAll() {
    std::optional<Ticker> ticker;
    // One compile may take minutes.
    if (options_.is_warming) {
      ticker.emplace(std::min(kTickTime, console_.progress_interval), [this] {
        const MutexLock lock(mutex_);
        ShowProgress();
      });
    }
    return client_.CompileMany([&](v1::CompileRequest& request) { return Next(request); },
                               [&](uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
                                 OnAnswer(index, std::move(answer));
                               },
                               {.call = call_, .in_flight_max = options_.in_flight_max});
  }

  // The next request that can be sent; those that could not be read are reported on the way.
  bool Next(v1::CompileRequest& request) {
    while (MayGoOn()) {
      auto named = next_();
      if (!named.has_value()) return false;
      const MutexLock lock(mutex_);
      Item item = Describe(*named);
      const absl::Status status = TakeSass(named->request, item);
      if (status.ok()) {
        item.compilers = NamedCompilers::Of(*named);
        request = *std::move(named->request);
        if (request.cache_policy() == v1::CACHE_POLICY_ONLY_IF_CACHED) item.request = request;
        sent_.emplace(sent_count_++, std::move(item));
        return true;
      }
      Report(item, status);
    }
    return false;
  }

  bool MayGoOn() {
    const MutexLock lock(mutex_);
    if (options_.stops_at_failure && counts_.failed > 0) {
      stopped_ = "stopped after the first failure";
    } else if (options_.stop_at && clock_.Now() >= *options_.stop_at) {
      stopped_ = "stopped at the end of --budget";
    }
    return stopped_.empty();
  }

  void ReportUnsent(const absl::Status& why) {
    while (auto named = next_()) {
      Item item = Describe(*named);
      Report(item, named->request.ok() ? why : named->request.status());
    }
  }

  void OnAnswer(uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
    const MutexLock lock(mutex_);
    const auto found = sent_.extract(index);
    Item& item = found.mapped();
    if (!answer.ok()) {
      answer = absent_compilers_.Annotated(answer.status(), item.compilers);
    } else if (!item.sass_stages.empty()) {
      const absl::Status added = AddSass(**nvdisasm_, item.sass_stages, *answer);
      if (!added.ok()) answer = added;
    }
    Report(item, std::move(answer));
  }

  Item Describe(const NamedRequest& named) {
    Item item;
    item.name = named.name;
    item.source_file = named.source_file;
    item.line = named.line;
    if (options_.output != nullptr) item.file = names_.For(named.name);
    if (named.request.ok() && named.request->has_target()) {
      item.target = TargetName(named.request->target());
      item.ir = IrOf(named);
      if (!options_.is_warming && item.ir == RetargetedIr::kMayDiffer) {
        item.ir = RetargetedIr::kSame;  // whoever compiles for a target chose it
      }
      item.is_known_refusal = named.recorded.is_refused;
    }
    item.sent = clock_.Now();
    return item;
  }

  // Finds nvdisasm before the request is sent: without it, the compile would be in vain.
  absl::Status TakeSass(absl::StatusOr<v1::CompileRequest>& request, Item& item) {
    if (!request.ok()) return request.status();
    item.sass_stages = AskForCubin(*request);
    if (item.sass_stages.empty()) return absl::OkStatus();
    if (!nvdisasm_) nvdisasm_ = FindNvdisasm(options_.nvdisasm);
    return nvdisasm_->status();
  }

  void Report(Item& item, absl::StatusOr<v1::CompileResponse> answer) {
    item.duration = std::chrono::duration_cast<microseconds>(clock_.Now() - item.sent);
    item.answer = std::move(answer);
    if (absl::IsNotFound(item.answer.status()) && item.request) ExplainMiss(item);
    if (options_.output != nullptr && item.answer.ok()) {
      const absl::Status written = options_.output->Write(item.name, item.file, *item.answer);
      if (!written.ok()) item.answer = Annotate(written, "cannot write");
    }
    ++counts_.answers;
    retargeted_.Add(item.ir, item.name);
    const bool is_named = item.ir != RetargetedIr::kSame;
    if (item.answer.ok()) {
      const v1::Outcome outcome = item.answer->outcome();
      if (outcome == v1::OUTCOME_HIT) ++counts_.hit;
      if (outcome == v1::OUTCOME_JOINED) ++counts_.joined;
      if (outcome == v1::OUTCOME_COMPILED) ++counts_.compiled;
      counts_.bytes += BytesOf(*item.answer);
      if (item.answer->not_leased()) {
        not_leased_.Add(item.name);
      } else if (options_.is_warming && outcome == v1::OUTCOME_HIT &&
                 hit_names_.size() < kHitNamesMax) {
        hit_names_.emplace(item.answer->key(), item.name);
      }
      if (options_.on_artifact) {
        options_.on_artifact(item.answer->key(), is_named || item.answer->not_leased());
      }
    } else if (item.is_known_refusal && IsCompilersVerdict(item.answer.status())) {
      ++counts_.refused;
      if (options_.on_known_refusal) options_.on_known_refusal();
    } else {
      ++counts_.failed;
      if (options_.on_failure) options_.on_failure(item.name, item.answer.status());
    }
    Show(item);
  }

  void ExplainMiss(Item& item) {
    if (options_.is_warming || explained_misses_++ >= kExplainedMissesMax) return;
    auto nearest = client_.Nearest(*item.request, session_.Call(kQuestionTime));
    if (nearest.ok() && !nearest->key().empty()) item.nearest = *std::move(nearest);
  }

  void Show(const Item& item) {
    if (session_.json()) {
      console_.out << Dump(JsonOf(item)) << std::endl;
      return;
    }
    const bool is_foreseen = item.is_known_refusal && IsCompilersVerdict(item.answer.status());
    if (!item.answer.ok() && !is_foreseen) {
      progress_.Clear();
      PrintCompileFailure(console_, item.name, item.source_file, item.answer.status());
      if (item.nearest) PrintNearest(console_, *item.nearest);
    }
    if (!options_.is_warming) {
      progress_.Clear();  // rows beyond the first are printed at once
      table_.AddRow(RowOf(item, KeyDigitsShown(console_)));
    }
    console_.out.flush();
    ShowProgress();
  }

  // Names the request that was sent first of those under way.
  void ShowProgress() {
    ProgressNote note{.failed = counts_.failed};
    if (options_.is_warming && !sent_.empty()) note.waiting_for = sent_.begin()->second.name;
    progress_.Update(counts_.answers, note);
  }

  void TellNamed() {
    retargeted_.Tell(console_);
    not_leased_.Tell(console_,
                     "not leased, since the leases of this user, or of all, have their share: the "
                     "store may evict them before the job runs");
  }

  // Prints the summary. `ended` is why the batch ended early.
  ExitCode Finish(microseconds wall, const absl::Status& ended) {
    if (options_.is_warming) {
      for (const std::string& key : client_.TakeNotLeased()) not_leased_.Add(hit_names_[key]);
    }
    progress_.Clear();
    table_.Flush();
    if (session_.json()) {
      const Json summary = {{"requests", counts_.answers},
                            {"hit", counts_.hit},
                            {"joined", counts_.joined},
                            {"compiled", counts_.compiled},
                            {"failed", counts_.failed},
                            {"refused", counts_.refused},
                            {"not_leased", not_leased_.count()},
                            {"not_leased_names", not_leased_.names()},
                            {"ms", Milliseconds(wall)},
                            {"bytes", counts_.bytes},
                            {"error", NullIfEmpty(!ended.ok() ? Summarize(ended) : stopped_)}};
      console_.out << Dump(Json{{"summary", summary}}) << std::endl;
    } else {
      console_.err << SummaryLine(counts_, wall);
    }
    TellNamed();
    // Each request of the command line that had no time left has said so.
    if (absl::IsDeadlineExceeded(ended) && counts_.failed > 0 && options_.requests.empty())
      return kFailed;
    if (!ended.ok()) return Fail(console_, "stopped early", WithCode(ended));
    if (counts_.answers == 0 && !options_.requests.empty()) {
      console_.err << "kiln: " << Printable(options_.requests)
                   << ": there are no requests in it, so nothing was compiled\n";
    }
    if (!stopped_.empty()) {
      console_.err << fmt::format("kiln: {}; run the command again to go on\n", stopped_);
      return kFailed;
    }
    return counts_.failed == 0 ? kOk : kFailed;
  }

  Mutex mutex_;  // the batch is read on one thread and answered on another
  const Clock& clock_ = SystemClock();
  Client& client_;
  Session& session_;
  Console& console_;
  const NamedRequestSource next_;
  const BatchOptions& options_;
  CallOptions call_;
  AbsentCompilers absent_compilers_;
  Table table_;
  Progress progress_;
  FileNames names_{"index"};
  std::optional<absl::StatusOr<std::string>> nvdisasm_;  // once one is needed
  std::map<uint64_t, Item> sent_;                        // by their index
  RetargetedKernels retargeted_;
  ToldKernels not_leased_;
  std::map<std::string, std::string> hit_names_;  // of a warm, by key
  std::string stopped_;                           // when no more requests were sent, and why
  uint64_t sent_count_ = 0;
  int explained_misses_ = 0;
  BatchCounts counts_;
};

}  // namespace

std::string SummaryLine(const BatchCounts& counts, microseconds wall) {
  const std::string refused =
      counts.refused > 0 ? fmt::format(", {} refused as when recorded", counts.refused) : "";
  return fmt::format("{} in {}: {} hit, {} joined, {} compiled, {} failed{}, {}\n", counts.answers,
                     FormatDuration(wall), counts.hit, counts.joined, counts.compiled,
                     counts.failed, refused, FormatBytes(counts.bytes));
}

ExitCode RunBatch(Client& client, Session& session, NamedRequestSource next,
                  const BatchOptions& options) {
  return Batch(client, session, std::move(next), options).Run();
}

}  // namespace kiln::cli
