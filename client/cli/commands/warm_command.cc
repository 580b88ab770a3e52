#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

#include "client/cli/commands/batch.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/request_source.h"
#include "client/cli/commands/warm_own_entries.h"
#include "client/cli/commands/warmth.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

struct WarmArguments {
  std::vector<std::string> files;
  RequestFlags flags;
  uint64_t jobs = 0;
  std::optional<double> budget_seconds;
  std::string shard;
  bool fail_on_error = false;
  bool status = false;
};

// Whether the kernels are those that the recorded keys name.
bool IsAsRecorded(const WarmArguments& arguments) {
  const RequestFlags& flags = arguments.flags;
  return flags.targets.empty() && flags.fields.at("toolchain").empty() &&
         flags.fields.at("ptxas").empty() && arguments.shard.empty();
}

// Whether an earlier warm has got everything, and it is still there. Says so.
bool ShowKnown(const WarmMarker& marker, Session& session) {
  const SteadyTime started = SystemClock().Now();
  const auto found = marker.Find(session.Call());
  if (!found) return false;
  BatchCounts counts;
  counts.answers = counts.hit = found->kernels;
  counts.bytes = found->bytes;
  session.console().err << SummaryLine(
      counts, std::chrono::duration_cast<std::chrono::microseconds>(SystemClock().Now() - started));
  return true;
}

// The job that the manifests are recordings of; "" where they are of several, or do not say.
std::string RecordedJob(const std::vector<std::string>& files) {
  std::set<std::string> jobs;
  for (const std::string& path : files) jobs.insert(OriginOf(path).job());
  return jobs.size() == 1 ? *jobs.begin() : "";
}

// Whether the surroundings say for which job this is.
bool IsWithinJob() {
  const auto is_set = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  return is_set("KILN_JOB") || is_set("SLURM_JOB_ID");
}

absl::StatusOr<ExitCode> RunWarm(const WarmArguments& arguments, Session& session) {
  RequestFlags flags = arguments.flags;
  if (flags.fields["job"].empty() && !IsWithinJob()) {
    flags.fields["job"] = RecordedJob(arguments.files);
  }
  // For another toolchain than the recorded one, the time is long.
  const char* const usual = flags.fields["toolchain"].empty() ? "warm" : "background";
  if (flags.fields["priority"].empty()) flags.fields["priority"] = usual;
  KILN_ASSIGN_OR_RETURN(const RequestTemplate shape, CannotRun(RequestTemplate::Of(flags)));
  KILN_ASSIGN_OR_RETURN(const Shard shard, CannotRun(Shard::Parse(arguments.shard)));
  const WarmthQuestion question{arguments.files, shape, shard};
  if (arguments.status) return ShowWarmth(question, session);
  BatchOptions options;
  if (arguments.budget_seconds) {
    options.stop_at =
        SystemClock().Now() + std::chrono::duration_cast<SteadyTime::duration>(
                                  std::chrono::duration<double>(*arguments.budget_seconds));
  }
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  // Before the requests are opened: Keep notices a file that is replaced from here on.
  WarmMarker marker(question, *client);
  KILN_ASSIGN_OR_RETURN(NamedRequestSource source,
                        CannotRun(OpenRequests(arguments.files, shape, shard)));
  // JSON says something of each kernel.
  if (!session.json() && ShowKnown(marker, session)) {
    if (IsAsRecorded(arguments)) WarmOwnEntries(*client, session, arguments.files);
    return kOk;
  }
  bool has_more = false;
  options.on_artifact = [&](const std::string& key, bool is_named) {
    marker.Add(key);
    has_more = has_more || is_named;
  };
  // KILN_MODE=require takes a refusal that the daemon remembers, so each warm asks again.
  options.on_known_refusal = [&] { has_more = true; };
  options.requests = arguments.files.size() == 1 ? arguments.files.front() : "the manifests";
  options.total = CountRequests(arguments.files, flags, shard);
  options.is_warming = true;
  options.stops_at_failure = arguments.fail_on_error;
  if (arguments.jobs > 0) {
    options.in_flight_max = std::min<uint64_t>(arguments.jobs, limits::kStreamInFlightMax);
  } else if (options.stop_at || options.stops_at_failure) {
    // What the daemon has when the warm stops is waited for.
    options.in_flight_max =
        std::min<uint64_t>(std::thread::hardware_concurrency() + 1, limits::kStreamInFlightMax);
  }
  // Requests that cannot be counted may come one by one.
  if (options.total && options.in_flight_max > 1) source = LongestFirst(std::move(source));
  const ExitCode code = RunBatch(*client, session, std::move(source), options);
  // What the end names, or the daemon has to be asked for, is so the next time, too.
  if (code == kOk && !has_more) marker.Keep(session.Call());
  if (code != kCouldNotRun && IsAsRecorded(arguments)) {
    WarmOwnEntries(*client, session, arguments.files);
  }
  return code;
}

}  // namespace

void AddWarm(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("warm", "Fill the cache before a job starts, from manifests", RunWarm);
  command.Add("MANIFEST", arguments.files,
              "Manifests, or files with one JSON request a line; - for the standard input",
              {.is_required = true, .is_path = true});
  command.Add("--jobs", arguments.jobs,
              "Requests under way at once (default: 64, or twice the cores; with --budget or "
              "--fail-on-error the cores and one)",
              {.value_name = "N"});
  command.Add("--budget", arguments.budget_seconds,
              "Send no more requests after this time, as 5m; what runs may end",
              {.value_name = "TIME"});
  command.Add("--shard", arguments.shard,
              "Only a part, as 3/16: 16 machines that warm a part each warm all together",
              {.value_name = "K/N"});
  command.AddFlag("--fail-on-error", arguments.fail_on_error,
                  "Send no more requests after the first failure");
  command.AddFlag("--status", arguments.status,
                  "Compile nothing: say whether everything is in the cache, and what is not");
  AddRequestFlags(command, arguments.flags);
}

}  // namespace kiln::cli
