#include "client/cli/commands/warmth.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/rpc/client.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

constexpr auto kAskAgainTime = std::chrono::milliseconds(500);
constexpr auto kWaitLineTime = std::chrono::seconds(10);
constexpr size_t kNamesShownMax = 16;

// It says nothing of the request: the daemon is away, or has no time.
bool IsOfTheMoment(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status);
}

// What is known of the requests so far.
class Warmth {
 public:
  explicit Warmth(const WarmthQuestion& question) : question_(question) {}

  // Asks for what was missing the last time, or for everything. Compiles nothing.
  absl::Status Ask(Client& client, const CallOptions& call) {
    KILN_ASSIGN_OR_RETURN(
        NamedRequestSource source,
        CannotRun(OpenRequests(question_.files, question_.shape, question_.shard)));
    uint64_t position = 0;
    std::map<uint64_t, std::pair<uint64_t, std::string>> sent;  // position and name, by index
    const auto next = [&](v1::CompileRequest& request) {
      while (auto named = source()) {
        const MutexLock lock(mutex_);
        const uint64_t at = position++;
        if (was_asked_ && !missing_.contains(at)) continue;
        if (!named->request.ok()) {
          Fail(at, named->name, named->request.status());
          continue;
        }
        std::string name =
            fmt::format("{} for {}", named->name, TargetName(named->request->target()));
        request = *std::move(named->request);
        request.set_cache_policy(v1::CACHE_POLICY_ONLY_IF_CACHED);
        request.set_priority(v1::PRIORITY_BACKGROUND);
        sent[sent.size()] = {at, std::move(name)};
        return true;
      }
      return false;
    };
    absl::Status failed;
    CallOptions options = call;
    options.fetch_content = false;
    const absl::Status ended =
        client.CompileMany(next,
                           [&](uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
                             const MutexLock lock(mutex_);
                             const auto& [at, name] = sent.at(index);
                             const absl::Status status = Note(at, name, answer.status());
                             if (failed.ok()) failed = status;
                           },
                           {.call = options});
    KILN_RETURN_IF_ERROR(ended);
    KILN_RETURN_IF_ERROR(failed);
    was_asked_ = true;
    total_ = position;
    return absl::OkStatus();
  }

  bool IsDone() const { return was_asked_ && missing_.empty(); }
  bool IsComplete() const { return IsDone() && failed_.empty(); }
  uint64_t total() const { return total_; }
  uint64_t known() const { return total_ - missing_.size(); }
  std::string FirstMissing() const { return missing_.empty() ? "" : missing_.begin()->second; }

  void Print(Session& session) const {
    Console& console = session.console();
    const char* const state = IsComplete() ? "complete" : IsDone() ? "failed" : "partial";
    const uint64_t stored = known() - failed_.size();
    if (session.json()) {
      console.out << Dump(Json{{"state", state},
                               {"total", total_},
                               {"stored", stored},
                               {"failed", Names(failed_)},
                               {"missing", Names(missing_)},
                               {"missing_count", missing_.size()}})
                  << std::endl;
      return;
    }
    console.out << fmt::format("{}: {} of {} stored", state, stored, FormatCount(total_, "kernel"));
    if (!failed_.empty()) console.out << fmt::format(", {} not compiling", failed_.size());
    console.out << '\n';
    PrintNames(console, "missing", missing_);
    PrintNames(console, "does not compile", failed_);
    console.out.flush();
  }

 private:
  using Named = std::map<uint64_t, std::string>;  // by position

  absl::Status Note(uint64_t at, const std::string& name, const absl::Status& answer)
      KILN_REQUIRES(mutex_) {
    if (IsOfTheMoment(answer)) return answer;
    missing_.erase(at);
    if (absl::IsNotFound(answer)) {
      missing_[at] = name;
    } else if (!answer.ok()) {
      Fail(at, name, answer);
    }
    return absl::OkStatus();
  }
  void Fail(uint64_t at, const std::string& name, const absl::Status& why) KILN_REQUIRES(mutex_) {
    missing_.erase(at);
    failed_[at] = fmt::format("{}: {}", name, Message(why).substr(0, Message(why).find('\n')));
  }

  static Json Names(const Named& named) {
    Json names = Json::array();
    for (const auto& [at, name] : named) {
      if (names.size() < kNamesShownMax) names.push_back(name);
    }
    return names;
  }
  static void PrintNames(Console& console, const char* title, const Named& named) {
    size_t shown = 0;
    for (const auto& [at, name] : named) {
      if (shown++ == kNamesShownMax) break;
      console.out << "  " << title << ": " << Printable(name) << '\n';
    }
    if (named.size() > kNamesShownMax) {
      console.out << fmt::format("  {}: {} more\n", title, named.size() - kNamesShownMax);
    }
  }

  const WarmthQuestion& question_;
  Mutex mutex_;  // requests are read on one thread and answered on another
  Named missing_;
  Named failed_;
  uint64_t total_ = 0;
  bool was_asked_ = false;
};

ExitCode CodeOf(const Warmth& warmth) { return warmth.IsComplete() ? kOk : kFailed; }

}  // namespace

absl::StatusOr<ExitCode> ShowWarmth(const WarmthQuestion& question, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  Warmth warmth(question);
  KILN_RETURN_IF_ERROR(CannotRun(warmth.Ask(*client, session.Call(kQuestionTime))));
  warmth.Print(session);
  return CodeOf(warmth);
}

absl::StatusOr<ExitCode> WaitForWarmth(const WarmthQuestion& question, Session& session) {
  const CallOptions call = session.Call();
  absl::StatusOr<std::unique_ptr<Client>> client = session.Connect();
  KILN_RETURN_IF_ERROR(client.status());
  Warmth warmth(question);
  std::optional<Progress> progress;
  const auto is_over = [&] {
    return call.deadline.has_value() && std::chrono::steady_clock::now() >= *call.deadline;
  };
  // The daemon may restart, or be busy, while somebody waits.
  while (true) {
    const absl::Status asked = client.ok() ? warmth.Ask(**client, call) : client.status();
    if (!asked.ok() && (!IsOfTheMoment(asked) || absl::IsPermissionDenied(asked))) {
      return CannotRun(asked);
    }
    if (!client.ok()) client = session.Connect();
    if (warmth.IsDone() || is_over()) break;
    if (!progress && !session.json()) {
      progress.emplace(session.console(), SystemClock(), warmth.total(), kWaitLineTime);
    }
    if (progress) progress->Update(warmth.known(), "waiting for " + warmth.FirstMissing());
    std::this_thread::sleep_for(kAskAgainTime);
  }
  progress.reset();
  if (!warmth.IsDone())
    session.console().err << "kiln wait: the time that --timeout gives is over\n";
  warmth.Print(session);
  return CodeOf(warmth);
}

}  // namespace kiln::cli
