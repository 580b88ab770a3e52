#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/json.h"

namespace kiln::cli {
namespace {

struct DrainArguments {};

ExitCode RunDrain(const DrainArguments&, Session& session) {
  Console& console = session.console();
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const absl::Status status = (*admin)->Drain(session.Call(kQuestionTime));
  if (!status.ok()) return Fail(console, "drain", status);
  if (session.json()) {
    console.out << Dump({{"draining", true}}) << std::endl;
  } else {
    console.out << "draining: the daemon exits when the requests under way are answered\n";
  }
  return kOk;
}

}  // namespace

void AddDrain(CLI::App& app, Command& chosen) {
  CLI::App& command =
      *app.add_subcommand("drain", "Let the daemon finish what is under way, and exit");
  Declare(command, chosen, RunDrain);
}

}  // namespace kiln::cli
