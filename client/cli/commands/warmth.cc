#include "client/cli/commands/warmth.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/first_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/ticker.h"
#include "client/cli/requests/ptxas_selector.h"
#include "client/cli/requests/retargeted.h"
#include "client/rpc/client.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

constexpr auto kAskAgainTime = std::chrono::milliseconds(500);
// While this many are missing, nobody needs to know of those behind them but for the progress.
constexpr uint64_t kMissingAskedMax = 64;
constexpr auto kAskForAllTime = std::chrono::seconds(5);

// It says nothing of the request: the daemon is away, ends (and cancels its calls), or has no time.
bool IsOfTheMoment(const absl::Status& status) {
  // Too much shared memory has the code that a busy daemon answers with.
  if (IsCompilersVerdict(status)) return false;
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsPermissionDenied(status);
}

// What is known of the requests so far. Holds a bit for each request.
class Warmth {
 public:
  static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

  explicit Warmth(const WarmthQuestion& question) : question_(question) {}

  // Asks for everything that is not known to be stored or to fail, until `missing_max` of it are
  // still missing. Compiles nothing.
  absl::Status Ask(Client& client, const CallOptions& call, uint64_t missing_max) {
    KILN_ASSIGN_OR_RETURN(
        NamedRequestSource source,
        CannotRun(OpenRequests(question_.files, question_.shape, question_.shard)));
    uint64_t position = 0;
    uint64_t sent = 0;
    uint64_t still_missing = 0;
    AbsentCompilers absent(client, call);
    std::map<uint64_t, Asked> under_way;  // by index; what has no answer yet
    const auto next = [&](v1::CompileRequest& request) {
      while (auto named = source()) {
        const MutexLock lock(mutex_);
        if (still_missing >= missing_max) return false;
        const uint64_t at = position++;
        if (at == is_missing_.size()) {
          is_missing_.push_back(true);  // until it is answered
          ++missing_;
          retargeted_.Add(IrOf(*named), named->name);
        }
        if (!is_missing_[at]) continue;
        if (!named->request.ok()) {
          Fail(at, named->name, named->request.status());
          continue;
        }
        under_way[sent++] = {
            at, fmt::format("{} for {}", named->name, TargetName(named->request->target())),
            NamedCompilers::Of(*named), named->recorded.is_refused};
        request = *std::move(named->request);
        request.set_cache_policy(v1::CACHE_POLICY_ONLY_IF_CACHED);
        request.set_priority(v1::PRIORITY_BACKGROUND);
        return true;
      }
      return false;
    };
    absl::Status failed;
    CallOptions options = call;
    options.fetch_content = false;
    const size_t in_flight_max = std::min<uint64_t>(InFlightDefault(), missing_max);
    const absl::Status ended =
        client.CompileMany(next,
                           [&](uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
                             const MutexLock lock(mutex_);
                             const Asked asked = std::move(under_way.extract(index).mapped());
                             const absl::Status status =
                                 Note(asked, absent.Annotated(answer.status(), asked.compilers));
                             if (failed.ok()) failed = status;
                             if (is_missing_[asked.at]) ++still_missing;
                           },
                           {.call = options, .in_flight_max = in_flight_max});
    const MutexLock lock(mutex_);
    trouble_ = ended.ok() ? failed : ended;
    was_asked_ = was_asked_ || (trouble_.ok() && missing_max == kAll);
    return trouble_;
  }

  // There is no connection.
  void SetTrouble(const absl::Status& trouble) {
    const MutexLock lock(mutex_);
    trouble_ = trouble;
  }

  void ShowProgress(Progress& progress) {
    const MutexLock lock(mutex_);
    if (was_asked_) progress.SetTotal(total());
    ProgressNote note{.failed = failed_, .waiting_for = missing_names_.First()};
    if (!trouble_.ok()) note.text = Printable(Message(trouble_));
    progress.Update(known(), note);
  }

  bool IsDone() const { return was_asked_ && missing_ == 0; }
  bool IsComplete() const { return IsDone() && failed_ == 0; }
  uint64_t total() const { return is_missing_.size(); }
  // Stored, or known not to compile.
  uint64_t known() const { return total() - missing_; }

  void Print(Session& session) const {
    Console& console = session.console();
    const char* const state = IsComplete() ? "complete" : IsDone() ? "failed" : "partial";
    const uint64_t stored = known() - failed_ - refused_;
    if (session.json()) {
      console.out << Dump(Json{{"state", state},
                               {"total", total()},
                               {"stored", stored},
                               {"refused", refused_},
                               {"failed", failed_names_.AsJson()},
                               {"missing", missing_names_.AsJson()},
                               {"missing_count", missing_},
                               {"ir_differs", retargeted_.differing()},
                               {"ir_may_differ", retargeted_.unsure()}})
                  << std::endl;
      return;
    }
    console.out << fmt::format("{}: {} of {} stored", state, stored,
                               FormatCount(total(), "kernel"));
    if (refused_ > 0) console.out << fmt::format(", {} refused as when recorded", refused_);
    if (failed_ > 0) console.out << fmt::format(", {} failed", failed_);
    console.out << '\n';
    missing_names_.Print(console.out, "missing", missing_);
    failed_names_.Print(console.out, "failed", failed_);
    console.out.flush();
    retargeted_.Tell(console);
  }

 private:
  struct Asked {
    uint64_t at = 0;  // its position
    std::string name;
    NamedCompilers compilers;
    bool is_known_refusal = false;
  };

  static std::string WithReason(const std::string& name, const absl::Status& why) {
    return fmt::format("{}: {}", name, Message(why).substr(0, Message(why).find('\n')));
  }

  absl::Status Note(const Asked& asked, const absl::Status& answer) KILN_REQUIRES(mutex_) {
    if (IsOfTheMoment(answer)) return answer;
    // With a toolchain that is added, it may be compiled.
    const bool has_no_toolchain = absl::IsFailedPrecondition(answer);
    SetMissing(asked.at, absl::IsNotFound(answer) || has_no_toolchain);
    if (absl::IsNotFound(answer)) {
      missing_names_.Add(asked.at, asked.name);
    } else if (has_no_toolchain) {
      missing_names_.Add(asked.at, WithReason(asked.name, answer));
    } else if (asked.is_known_refusal && IsCompilersVerdict(answer)) {
      ++refused_;
    } else if (!answer.ok()) {
      Fail(asked.at, asked.name, answer);
    }
    return absl::OkStatus();
  }
  void Fail(uint64_t at, const std::string& name, const absl::Status& why) KILN_REQUIRES(mutex_) {
    SetMissing(at, false);
    ++failed_;
    failed_names_.Add(at, WithReason(name, why));
  }
  void SetMissing(uint64_t at, bool is_missing) KILN_REQUIRES(mutex_) {
    if (is_missing_[at]) --missing_;
    if (is_missing) ++missing_;
    is_missing_[at] = is_missing;
    missing_names_.Remove(at);
  }

  const WarmthQuestion& question_;
  Mutex mutex_;                   // requests are read on one thread and answered on another
  std::vector<bool> is_missing_;  // by position
  uint64_t missing_ = 0;
  FirstNames missing_names_;
  uint64_t refused_ = 0;  // as when they were recorded
  uint64_t failed_ = 0;
  FirstNames failed_names_;
  RetargetedKernels retargeted_;
  bool was_asked_ = false;  // for everything
  absl::Status trouble_;    // with the daemon, the last time
};

ExitCode CodeOf(const Warmth& warmth) { return warmth.IsComplete() ? kOk : kFailed; }

}  // namespace

absl::StatusOr<ExitCode> ShowWarmth(const WarmthQuestion& question, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  Warmth warmth(question);
  KILN_RETURN_IF_ERROR(CannotRun(warmth.Ask(*client, session.Call(), Warmth::kAll)));
  warmth.Print(session);
  return CodeOf(warmth);
}

absl::StatusOr<ExitCode> WaitForWarmth(const WarmthQuestion& question, Session& session) {
  const CallOptions call = session.Call();
  absl::StatusOr<std::unique_ptr<Client>> client = session.Connect();
  KILN_RETURN_IF_ERROR(client.status());
  Warmth warmth(question);
  const auto is_over = [&] {
    return call.deadline.has_value() && std::chrono::steady_clock::now() >= *call.deadline;
  };
  {
    Progress progress(session.console(), SystemClock(), std::nullopt,
                      session.json() ? ProgressLines::kJson : ProgressLines::kText);
    const Ticker ticker(std::min(kTickTime, session.console().progress_interval),
                        [&] { warmth.ShowProgress(progress); });
    // The daemon may restart, or be busy, while somebody waits.
    std::optional<SteadyTime> asked_for_all;
    while (true) {
      const SteadyTime began = SystemClock().Now();
      const bool asks_for_all = !asked_for_all || began - *asked_for_all >= kAskForAllTime;
      const uint64_t missing_max = asks_for_all ? Warmth::kAll : kMissingAskedMax;
      const absl::Status asked =
          client.ok() ? warmth.Ask(**client, call, missing_max) : client.status();
      if (asked.ok() && asks_for_all) asked_for_all = began;
      if (!asked.ok() && (!IsOfTheMoment(asked) || absl::IsPermissionDenied(asked))) {
        return CannotRun(asked);
      }
      if (!client.ok()) warmth.SetTrouble(asked);
      if (!client.ok()) client = session.Connect();
      if (warmth.IsDone() || is_over()) break;
      // A large manifest takes long to read, and what warms it needs the cores.
      const auto took = SystemClock().Now() - began;
      std::this_thread::sleep_for(std::max<SteadyTime::duration>(kAskAgainTime, 2 * took));
    }
  }
  if (!warmth.IsDone())
    session.console().err << "kiln wait: the time that --timeout gives is over\n";
  warmth.Print(session);
  return CodeOf(warmth);
}

}  // namespace kiln::cli
