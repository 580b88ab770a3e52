#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

ExitCode RunDrain(Session& session) {
  Console& console = session.console();
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const absl::Status status = (*admin)->Drain(session.Call(kQuestionTime)).status();
  if (!status.ok()) return Fail(console, "drain", status);
  if (session.json()) {
    console.out << DumpFields({{"draining", true}}) << std::endl;
  } else {
    console.out << "draining: the daemon exits when the requests under way are answered\n";
  }
  return kOk;
}

}  // namespace

void AddDrain(CommandParser& parser) {
  parser.AddSubcommand("drain", "Let the daemon finish what is under way, and exit", RunDrain);
}

}  // namespace kiln::cli
