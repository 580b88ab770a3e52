#include <algorithm>
#include <utility>

#include "client/cli/commands/batch.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/request_source.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct WarmArguments {
  std::vector<std::string> files;
  RequestFlags flags;
  uint64_t jobs = 0;
  std::optional<double> budget_seconds;
  std::string shard;
  bool fail_on_error = false;
};

absl::StatusOr<NamedRequestSource> OpenAll(const std::vector<std::string>& files,
                                           const RequestTemplate& shape, Shard shard) {
  std::vector<NamedRequestSource> sources;
  for (const std::string& path : files) {
    KILN_ASSIGN_OR_RETURN(RequestFile file, About(path, RequestFile::Open(path)));
    sources.push_back(FromRequestFile(std::move(file), shape));
  }
  // A line's stages are what its caller wants back, and another target may not have them. Nothing
  // comes back here, and every stage is stored.
  return Changed(OfShard(Chained(std::move(sources)), shard),
                 [](v1::CompileRequest& request) { request.clear_stages(); });
}

std::optional<uint64_t> CountAll(const std::vector<std::string>& files, const RequestFlags& flags,
                                 Shard shard) {
  uint64_t total = 0;
  for (const std::string& path : files) {
    const auto count = CountRequests(path, flags);
    if (!count.has_value()) return std::nullopt;
    total += *count;
  }
  return (total + shard.count - 1) / shard.count;
}

absl::StatusOr<ExitCode> RunWarm(const WarmArguments& arguments, Session& session) {
  RequestFlags flags = arguments.flags;
  if (flags.fields["priority"].empty()) flags.fields["priority"] = "warm";
  KILN_ASSIGN_OR_RETURN(const RequestTemplate shape, CannotRun(RequestTemplate::Of(flags)));
  KILN_ASSIGN_OR_RETURN(const Shard shard, CannotRun(Shard::Parse(arguments.shard)));
  BatchOptions options;
  if (arguments.budget_seconds) {
    options.stop_at =
        SystemClock().Now() + std::chrono::duration_cast<SteadyTime::duration>(
                                  std::chrono::duration<double>(*arguments.budget_seconds));
  }
  KILN_ASSIGN_OR_RETURN(NamedRequestSource source,
                        CannotRun(OpenAll(arguments.files, shape, shard)));
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  options.requests = arguments.files.size() == 1 ? arguments.files.front() : "the manifests";
  options.total = CountAll(arguments.files, flags, shard);
  options.is_warming = true;
  options.stops_at_failure = arguments.fail_on_error;
  if (arguments.jobs > 0) {
    options.in_flight_max = std::min<uint64_t>(arguments.jobs, options.in_flight_max);
  }
  return RunBatch(*client, session, std::move(source), options);
}

}  // namespace

void AddWarm(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("warm", "Fill the cache before a job starts, from manifests", RunWarm);
  command.Add("MANIFEST", arguments.files,
              "Manifests, or files with one JSON request a line; - for the standard input",
              {.is_required = true, .is_path = true});
  command.Add("--jobs", arguments.jobs, "Requests under way at once (default: 64)",
              {.value_name = "N"});
  command.Add("--budget", arguments.budget_seconds,
              "Send no more requests after this time, as 5m; what runs may end",
              {.value_name = "TIME"});
  command.Add("--shard", arguments.shard,
              "Only a part, as 3/16: 16 machines that warm a part each warm all together",
              {.value_name = "K/N"});
  command.AddFlag("--fail-on-error", arguments.fail_on_error,
                  "Send no more requests after the first failure");
  AddRequestFlags(command, arguments.flags);
}

}  // namespace kiln::cli
