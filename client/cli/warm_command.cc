#include <algorithm>
#include <utility>

#include "client/cli/batch.h"
#include "client/cli/batch_report.h"
#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/request_source.h"

namespace kiln::cli {
namespace {

struct WarmArguments {
  std::string requests;
  RequestFlags flags;
};

// How many answers there will be.
std::optional<uint64_t> TotalOf(const WarmArguments& arguments) {
  const auto lines = CountRequests(arguments.requests);
  if (!lines.has_value()) return std::nullopt;
  return *lines * std::max<size_t>(1, arguments.flags.targets.size());
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

  BatchReport report(session, SystemClock(), BatchReport::Detail::kFailures, TotalOf(arguments));
  BatchParts parts;
  parts.next = FromRequestFile(*std::move(file), *std::move(shape));
  parts.report = [&](BatchAnswer& answer) { report.OnAnswer(answer); };
  BatchCounts counts;
  ManyOptions options;
  options.call = session.Call();
  options.call.fetch_content = false;
  const absl::Status ended = RunBatch(**client, options, SystemClock(), parts, counts);
  return report.Finish(counts, ended);
}

}  // namespace

void AddWarm(CLI::App& app, Command& chosen) {
  CLI::App& command =
      *app.add_subcommand("warm", "Fill the cache before a job starts, from a file of requests");
  const auto arguments = Declare(command, chosen, RunWarm);
  command
      .add_option("FILE", arguments->requests,
                  "A file with one JSON request a line; - for the standard input")
      ->required();
  AddRequestFlags(command, arguments->flags);
}

}  // namespace kiln::cli
