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
  const Json json{{"kiln", KILN_VERSION}, {"kilnd", daemon ? Json(*daemon) : Json(nullptr)}};
  const std::string text =
      fmt::format("kiln  {}\nkilnd {}", KILN_VERSION,
                  daemon.value_or("not reachable on its administration socket"));
  session.console().out << (session.json() ? Dump(json) : text) << std::endl;
  return kOk;
}

}  // namespace

void AddVersion(CommandParser& parser) {
  parser.AddSubcommand("version", "Show the versions of this command and of the daemon",
                       RunVersion);
}

}  // namespace kiln::cli
