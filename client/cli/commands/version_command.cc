#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

// A daemon that cannot be asked is no failure here.
std::optional<std::string> DaemonVersion(Session& session) {
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return std::nullopt;
  const auto stats = (*admin)->GetStats(session.Call(kQuestionTime));
  if (!stats.ok()) return std::nullopt;
  return stats->version();
}

ExitCode RunVersion(Session& session) {
  const auto daemon = DaemonVersion(session);
  if (session.json()) {
    session.console().out << Dump(Json{
                                 {"kiln", KILN_VERSION},
                                 {"kilnd", daemon.has_value() ? Json(*daemon) : Json(nullptr)}})
                          << std::endl;
    return kOk;
  }
  session.console().out << "kiln  " << KILN_VERSION << '\n'
                        << "kilnd " << daemon.value_or("not reachable on its administration socket")
                        << '\n';
  return kOk;
}

}  // namespace

void AddVersion(CommandParser& parser) {
  parser.AddSubcommand("version", "Show the versions of this command and of the daemon",
                       RunVersion);
}

}  // namespace kiln::cli
