// Every subcommand of `kiln`, one file each. Add… declares its arguments on the app; parsing the
// command line puts what it does into `chosen`.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace kiln::cli {

void AddCompile(CLI::App& app, Command& chosen);
void AddWarm(CLI::App& app, Command& chosen);
void AddGet(CLI::App& app, Command& chosen);
void AddLs(CLI::App& app, Command& chosen);
void AddInspect(CLI::App& app, Command& chosen);
void AddStats(CLI::App& app, Command& chosen);
void AddEvict(CLI::App& app, Command& chosen);
void AddPin(CLI::App& app, Command& chosen);
void AddVerify(CLI::App& app, Command& chosen);
void AddDrain(CLI::App& app, Command& chosen);
void AddDoctor(CLI::App& app, Command& chosen);
void AddVersion(CLI::App& app, Command& chosen);

// The flags that `compile` and `warm` share.
struct RequestFlags;
void AddRequestFlags(CLI::App& command, RequestFlags& flags);

// Declares a subcommand whose arguments live in Arguments and which does `run`.
template <typename Arguments>
std::shared_ptr<Arguments> Declare(CLI::App& command, Command& chosen,
                                   ExitCode (*run)(const Arguments&, Session&)) {
  auto arguments = std::make_shared<Arguments>();
  command.callback([arguments, run, &chosen] {
    chosen = [arguments, run](Session& session) { return run(*arguments, session); };
  });
  return arguments;
}

}  // namespace kiln::cli
