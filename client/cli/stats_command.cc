#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/fields.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct StatsArguments {};

using Stats = admin::v1::GetStatsResponse;

Json ToJson(const Stats& stats) {
  Json json;
  json["version"] = stats.version();
  json["started_unix_ms"] = stats.started_unix_ms();
  json["state"] = stats.state();
  json["state_reason"] = stats.state_reason();
  json["compile_path"] = stats.compile_path();
  json["store"] = stats.store();
  json["requests"] = stats.requests();
  json["hits_memory"] = stats.hits_memory();
  json["hits_disk"] = stats.hits_disk();
  json["joined"] = stats.joined();
  json["compiled"] = stats.compiled();
  json["failed"] = stats.failed();
  json["rejected"] = stats.rejected();
  json["artifacts"] = stats.artifacts();
  json["store_bytes"] = stats.store_bytes();
  json["store_bytes_max"] = stats.store_bytes_max();
  json["evicted"] = stats.evicted();
  json["quarantined"] = stats.quarantined();
  json["free_disk_bytes"] = stats.free_disk_bytes();
  json["hot_bytes"] = stats.hot_bytes();
  json["hot_files"] = stats.hot_files();
  json["queued"] = stats.queued();
  json["running"] = stats.running();
  json["workers"] = stats.workers();
  json["workers_started"] = stats.workers_started();
  json["workers_killed"] = stats.workers_killed();
  json["workers_crashed"] = stats.workers_crashed();
  json["compile_cpu_micros"] = stats.compile_cpu_micros();
  json["connections"] = stats.connections();
  json["toolchains"] = Json::array();
  for (const auto& toolchain : stats.toolchains()) {
    json["toolchains"].push_back({{"name", toolchain.name()},
                                  {"fingerprint", Hex(toolchain.fingerprint())},
                                  {"state", toolchain.state()},
                                  {"workers", toolchain.workers()}});
  }
  return json;
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0";
  return fmt::format("{} ({:.1f} %)", part,
                     100 * static_cast<double>(part) / static_cast<double>(whole));
}

void PrintDaemon(Console& console, const Stats& stats) {
  const int64_t now = SystemClock().UnixMillis();
  PrintFields(console, "Daemon",
              {{"state", stats.state_reason().empty()
                             ? stats.state()
                             : fmt::format("{}: {}", stats.state(), stats.state_reason())},
               {"version", stats.version()},
               {"up for", FormatAge(stats.started_unix_ms(), now)},
               {"connections", std::to_string(stats.connections())},
               {"compile path", stats.compile_path()},
               {"store", stats.store()}});
}

void PrintRequests(Console& console, const Stats& stats) {
  const uint64_t all = stats.requests();
  PrintFields(console, "Requests",
              {{"all", std::to_string(all)},
               {"hits in memory", Share(stats.hits_memory(), all)},
               {"hits on disk", Share(stats.hits_disk(), all)},
               {"joined", Share(stats.joined(), all)},
               {"compiled", Share(stats.compiled(), all)},
               {"failed", Share(stats.failed(), all)},
               {"rejected", Share(stats.rejected(), all)}});
}

void PrintStore(Console& console, const Stats& stats) {
  PrintFields(console, "Store",
              {{"artifacts", std::to_string(stats.artifacts())},
               {"size", fmt::format("{} of {}", FormatBytes(stats.store_bytes()),
                                    FormatBytes(stats.store_bytes_max()))},
               {"free on disk", FormatBytes(stats.free_disk_bytes())},
               {"evicted", std::to_string(stats.evicted())},
               {"quarantined", std::to_string(stats.quarantined())},
               {"hot directory",
                fmt::format("{} files, {}", stats.hot_files(), FormatBytes(stats.hot_bytes()))}});
}

void PrintWork(Console& console, const Stats& stats) {
  PrintFields(console, "Work",
              {{"queued", std::to_string(stats.queued())},
               {"running", std::to_string(stats.running())},
               {"workers", fmt::format("{} ({} started, {} killed, {} crashed)", stats.workers(),
                                       stats.workers_started(), stats.workers_killed(),
                                       stats.workers_crashed())},
               {"CPU time", FormatDuration(std::chrono::microseconds(
                                static_cast<int64_t>(stats.compile_cpu_micros())))}});
  Fields toolchains;
  for (const auto& toolchain : stats.toolchains()) {
    toolchains.emplace_back(toolchain.name(),
                            fmt::format("{}, {} workers", toolchain.state(), toolchain.workers()));
  }
  PrintFields(console, "Toolchains", toolchains);
}

ExitCode RunStats(const StatsArguments&, Session& session) {
  Console& console = session.console();
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const auto stats = (*admin)->GetStats(session.Call(kQuestionTime));
  if (!stats.ok()) return Fail(console, "stats", stats.status());
  if (session.json()) {
    console.out << Dump(ToJson(*stats)) << std::endl;
    return kOk;
  }
  PrintDaemon(console, *stats);
  PrintRequests(console, *stats);
  PrintStore(console, *stats);
  PrintWork(console, *stats);
  return kOk;
}

}  // namespace

void AddStats(CLI::App& app, Command& chosen) {
  CLI::App& command = *app.add_subcommand("stats", "Show what the daemon has done and holds");
  Declare(command, chosen, RunStats);
}

}  // namespace kiln::cli
