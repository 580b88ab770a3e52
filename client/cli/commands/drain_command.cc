#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

absl::StatusOr<ExitCode> RunDrain(Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  KILN_RETURN_IF_ERROR(admin->Drain(session.Call(kQuestionTime)).status());
  const std::string text = "draining: the daemon exits when the requests under way are answered";
  session.console().out << (session.json() ? Dump(Json{{"draining", true}}) : text) << std::endl;
  return kOk;
}

}  // namespace

void AddDrain(CommandParser& parser) {
  parser.AddSubcommand("drain", "Let the daemon finish what is under way, and exit", RunDrain);
}

}  // namespace kiln::cli
