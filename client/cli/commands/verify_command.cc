#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

// Everything that the daemon's reports say, together.
absl::StatusOr<admin::v1::VerifyReport> Verify(AdminClient& admin, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto stats, admin.GetStats(session.Call(kQuestionTime)));
  Progress progress(session.console(), SystemClock(), MetricValue(stats, "artifacts"));
  admin::v1::VerifyReport all;
  const auto on_report = [&](const admin::v1::VerifyReport& report) {
    all.MergeFrom(report);
    progress.Update(all.checked(), {.text = FormatBytes(all.checked_bytes())});
  };
  KILN_RETURN_IF_ERROR(admin.Verify(on_report, session.Call()));
  if (!all.done()) return Unavailable("the daemon stopped before it had read everything");
  return all;
}

absl::StatusOr<ExitCode> RunVerify(Session& session) {
  Console& console = session.console();
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  KILN_ASSIGN_OR_RETURN(const admin::v1::VerifyReport found, Verify(*admin, session));
  if (session.json()) {
    console.out << Dump(Json{{"checked", found.checked()},
                             {"checked_bytes", found.checked_bytes()},
                             {"quarantined", ToJson(found).at("quarantined_keys")}})
                << std::endl;
  } else {
    for (const std::string& key : found.quarantined_keys()) {
      console.out << "damaged, put aside: " << Hex(key) << '\n';
    }
    console.out << fmt::format("checked {} artifacts, {}: {} damaged\n", found.checked(),
                               FormatBytes(found.checked_bytes()), found.quarantined_keys_size());
  }
  return found.quarantined_keys().empty() ? kOk : kFailed;
}

}  // namespace

void AddVerify(CommandParser& parser) {
  parser.AddSubcommand(
      "verify", "Read every stored artifact, check its digests, put damaged ones aside", RunVerify);
}

}  // namespace kiln::cli
