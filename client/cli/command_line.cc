#include "client/cli/command_line.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/session.h"

namespace kiln::cli {
namespace {

void AddGlobalOptions(Arguments arguments, GlobalOptions& options) {
  arguments.Add("--root", options.root,
                "The daemon that runs with --root DIR (default: $KILN_ROOT, then the usual places)",
                {.value_name = "DIR", .is_path = true});
  arguments.Add("--socket", options.socket, "The daemon's kilnd.sock itself",
                {.value_name = "PATH", .is_path = true});
  arguments.Add("--server-uid", options.server_uid,
                "Also trust a daemon that runs as this uid, besides root's and your own",
                {.value_name = "UID"});
  arguments.Add("--timeout", options.timeout_seconds,
                "Give up after this time: 30 (seconds), 30s, 10m", {.value_name = "TIME"});
  arguments.AddFlag("--json", options.json, "Print JSON, one object a line");
  arguments.AddFlag("--table", options.table, "Print aligned tables also into a pipe");
  arguments.AddFlag("--no-color", options.no_color, "Print no colors ($NO_COLOR does the same)");
}

// In the order of the help.
constexpr AddCommand* kCommands[] = {AddCompile, AddGraph,    AddRecord,  AddWarm,
                                     AddWait,    AddManifest, AddExport,  AddImport,
                                     AddGet,     AddLs,       AddInspect, AddReproduce,
                                     AddStats,   AddWhy,      AddEvict,   AddPin,
                                     AddVerify,  AddDrain,    AddDoctor,  AddToolchainCommand,
                                     AddVersion};

}  // namespace

int RunCommandLine(std::vector<std::string> arguments, std::ostream& out, std::ostream& err,
                   const Terminals& terminals) {
  CommandParser parser(
      "kiln", KILN_VERSION,
      "Compiles GPU kernels once and keeps them: asks kilnd.\n"
      "Exit status: 0 done, 1 something that was asked for failed, 2 could not run.");
  GlobalOptions options;
  AddGlobalOptions(parser.CommonArguments(), options);
  for (AddCommand* const add : kCommands) add(parser);
  const auto chosen = parser.Parse(std::move(arguments), out, err);
  Console console{out, err};
  console.aligned = terminals.out || options.table;
  console.color = terminals.color && !options.no_color && !options.json;
  console.progress = terminals.err;
  console.columns = terminals.out ? terminals.columns : 0;
  console.progress_interval = terminals.progress_interval;
  Session session(options, console);
  const ExitCode code = chosen(session);
  // Output that a full disk cut off must not look like success.
  if (out.flush()) return code;
  err << "kiln: the output could not be written completely\n  try: is the disk full?\n";
  return std::max(code, kFailed);
}

}  // namespace kiln::cli
