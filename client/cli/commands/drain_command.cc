#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

absl::StatusOr<ExitCode> RunDrain(Session& session) {
  Console& console = session.console();
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  KILN_RETURN_IF_ERROR(admin->Drain(session.Call(kQuestionTime)).status());
  if (session.json()) {
    console.out << Dump(Json{{"draining", true}}) << std::endl;
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
