#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct VerifyTotals {
  uint64_t checked = 0;
  uint64_t checked_bytes = 0;
  std::vector<std::string> quarantined;  // as hex
  bool is_done = false;
};

absl::StatusOr<VerifyTotals> Verify(AdminClient& admin, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto stats, admin.GetStats(session.Call(kQuestionTime)));
  Progress progress(session.console(), SystemClock(), MetricValue(stats, "artifacts"));
  VerifyTotals totals;
  const auto on_report = [&](const admin::v1::VerifyReport& report) {
    totals.checked = report.checked();
    totals.checked_bytes = report.checked_bytes();
    totals.is_done = report.done();
    for (const std::string& key : report.quarantined_keys()) totals.quarantined.push_back(Hex(key));
    progress.Update(totals.checked, FormatBytes(totals.checked_bytes));
  };
  KILN_RETURN_IF_ERROR(admin.Verify(on_report, session.Call()));
  if (!totals.is_done) return Unavailable("the daemon stopped before it had read everything");
  return totals;
}

ExitCode RunVerify(Session& session) {
  Console& console = session.console();
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const auto totals = Verify(**admin, session);
  if (!totals.ok()) return Fail(console, "verify", totals.status());
  if (session.json()) {
    console.out << DumpFields({{"checked", totals->checked},
                               {"checked_bytes", totals->checked_bytes},
                               {"quarantined", totals->quarantined}})
                << std::endl;
  } else {
    for (const std::string& key : totals->quarantined) {
      console.out << "damaged, put aside: " << key << '\n';
    }
    console.out << fmt::format("checked {} artifacts, {}: {} damaged\n", totals->checked,
                               FormatBytes(totals->checked_bytes), totals->quarantined.size());
  }
  return totals->quarantined.empty() ? kOk : kFailed;
}

}  // namespace

void AddVerify(CommandParser& parser) {
  parser.AddSubcommand(
      "verify", "Read every stored artifact, check its digests, put damaged ones aside", RunVerify);
}

}  // namespace kiln::cli
