#include <utility>

#include "client/cli/commands/batch_report.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/request_source.h"
#include "client/cli/requests/batch.h"

namespace kiln::cli {
namespace {

struct WarmArguments {
  std::string requests;
  RequestFlags flags;
};

// A line's stages are what its caller wants back, and those of another target may not be there at
// all. Nothing comes back here, and every stage is stored.
NamedRequestSource WithoutStages(NamedRequestSource next) {
  return [next = std::move(next)] {
    auto named = next();
    if (named.has_value() && named->request.ok()) named->request->clear_stages();
    return named;
  };
}

ExitCode RunWarm(const WarmArguments& arguments, Session& session) {
  Console& console = session.console();
  RequestFlags flags = arguments.flags;
  if (flags.priority.empty()) flags.priority = "warm";
  auto shape = RequestTemplate::Of(flags);
  if (!shape.ok()) return CannotRun(console, "warm", shape.status());
  auto file = RequestFile::Open(arguments.requests);
  if (!file.ok()) return CannotRun(console, "warm", file.status());
  const auto client = session.Connect();
  if (!client.ok()) return FailToConnect(console, client.status());

  BatchReport report(session, SystemClock(), BatchReport::Detail::kFailures,
                     CountRequests(arguments.requests, arguments.flags));
  BatchParts parts;
  parts.next = WithoutStages(FromRequestFile(*std::move(file), *std::move(shape)));
  parts.report = [&](BatchAnswer& answer) { report.OnAnswer(answer); };
  BatchCounts counts;
  ManyOptions options;
  options.call = session.Call();
  options.call.fetch_content = false;
  const absl::Status ended = RunBatch(**client, options, SystemClock(), parts, counts);
  return report.Finish(counts, ended, arguments.requests);
}

}  // namespace

void AddWarm(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "warm", "Fill the cache before a job starts, from a file of requests", RunWarm);
  command.Add("FILE", arguments.requests,
              "A file with one JSON request a line; - for the standard input",
              {.is_required = true, .is_path = true});
  AddRequestFlags(command, arguments.flags);
}

}  // namespace kiln::cli
