#include "client/cli/command_line.h"

#include <algorithm>

#include "client/cli/commands.h"
#include "client/cli/session.h"

namespace kiln::cli {
namespace {

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option(
         "--root", options.root,
         "The daemon that runs with --root DIR (default: $KILN_ROOT, then the usual places)")
      ->type_name("DIR");
  app.add_option("--socket", options.socket, "The daemon's kilnd.sock itself")->type_name("PATH");
  app.add_option("--server-uid", options.server_uid,
                 "Also trust a daemon that runs as this uid, besides root's and your own")
      ->type_name("UID");
  app.add_option("--timeout", options.timeout_seconds, "Give up after this many seconds")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_flag("--json", options.json, "Print JSON, one object a line");
  app.add_flag("--table", options.table, "Print aligned tables also into a pipe");
  app.add_flag("--no-color", options.no_color, "Print no colors ($NO_COLOR does the same)");
}

void AddSubcommands(CLI::App& app, Command& chosen) {
  AddCompile(app, chosen);
  AddWarm(app, chosen);
  AddGet(app, chosen);
  AddLs(app, chosen);
  AddInspect(app, chosen);
  AddStats(app, chosen);
  AddEvict(app, chosen);
  AddPin(app, chosen);
  AddVerify(app, chosen);
  AddDrain(app, chosen);
  AddDoctor(app, chosen);
  AddVersion(app, chosen);
}

}  // namespace

int RunCommandLine(std::vector<std::string> arguments, std::ostream& out, std::ostream& err,
                   const Terminals& terminals) {
  CLI::App app(
      "Compiles GPU kernels once and keeps them: asks kilnd.\n"
      "Exit status: 0 done, 1 something that was asked for failed, 2 could not run.",
      "kiln");
  app.require_subcommand(1);
  app.fallthrough();
  GlobalOptions options;
  Command chosen;
  AddGlobalOptions(app, options);
  AddSubcommands(app, chosen);
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? kOk : kCouldNotRun;
  }
  Console console{out, err};
  console.aligned = terminals.out || options.table;
  console.color = terminals.color && !options.no_color && !options.json;
  console.progress = terminals.err;
  Session session(options, console);
  return chosen(session);
}

}  // namespace kiln::cli
