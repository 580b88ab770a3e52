#include <algorithm>
#include <iterator>
#include <string_view>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/fields.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

using Stats = admin::v1::GetStatsResponse;

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
               {"hits in the remote tier", Share(stats.hits_remote(), all)},
               {"joined", Share(stats.joined(), all)},
               {"compiled", Share(stats.compiled(), all)},
               {"failed", Share(stats.failed(), all)},
               {"rejected", Share(stats.rejected(), all)},
               {"not found", Share(stats.not_found(), all)},
               {"abandoned", Share(stats.abandoned(), all)},
               {"errors", Share(stats.errors(), all)},
               {"under way", Share(stats.in_flight(), all)}});
}

void PrintStore(Console& console, const Stats& stats) {
  PrintFields(console, "Store",
              {{"artifacts", std::to_string(stats.artifacts())},
               {"size", fmt::format("{} of {}", FormatBytes(stats.store_bytes()),
                                    FormatBytes(stats.store_bytes_max()))},
               {"free on disk", FormatBytes(stats.free_disk_bytes())},
               {"evicted", std::to_string(stats.evicted())},
               {"quarantined", std::to_string(stats.quarantined())},
               {"own namespaces", fmt::format("{}, {}, {}", FormatCount(stats.own_users(), "user"),
                                              FormatCount(stats.own_entries(), "key"),
                                              FormatBytes(stats.own_bytes()))},
               {"hot directory", fmt::format("{}, {}", FormatCount(stats.hot_files(), "file"),
                                             FormatBytes(stats.hot_bytes()))}});
}

// "3 (1 waiting rank, 2 background), 12.0 KiB"
std::string Queue(const Stats& stats) {
  static constexpr std::string_view kPriorities[] = {"waiting rank", "autotune", "warm",
                                                     "background"};
  std::string shares;
  for (int i = 0; i < std::min<int>(stats.queued_by_priority_size(), std::size(kPriorities)); ++i) {
    if (stats.queued_by_priority(i) == 0) continue;
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", stats.queued_by_priority(i),
                          kPriorities[i]);
  }
  if (shares.empty()) return std::to_string(stats.queued());
  return fmt::format("{} ({}), {}", stats.queued(), shares, FormatBytes(stats.queued_bytes()));
}

// "5.2 GiB available, 512.0 MiB expected for what runs, pressure 0.0 %, 3 compiles held back"
std::string Memory(const Stats& stats) {
  return fmt::format(
      "{} available, {} expected for what runs, pressure {:.1f} %, {} held back",
      stats.has_available_memory_bytes() ? FormatBytes(stats.available_memory_bytes()) : "unknown",
      FormatBytes(stats.expected_memory_bytes()), stats.memory_pressure_percent(),
      FormatCount(stats.held_back(), "compile"));
}

// "on", "on, but this kernel has no Landlock"
std::string Jail(const Stats& stats) {
  std::string text = stats.jail();
  for (const std::string& problem : stats.jail_problems()) {
    text += fmt::format(", but {}", problem);
  }
  return text;
}

void PrintWork(Console& console, const Stats& stats) {
  PrintFields(
      console, "Work",
      {{"queued", Queue(stats)},
       {"running", fmt::format("{} of {}", stats.running(), stats.running_max())},
       {"memory", Memory(stats)},
       {"workers",
        fmt::format("{} ({} started, {} killed, {} crashed, {} aborted, {} idled)", stats.workers(),
                    stats.workers_started(), stats.workers_killed(), stats.workers_crashed(),
                    stats.workers_aborted(), stats.workers_idled())},
       {"zygotes replaced", std::to_string(stats.zygotes_replaced())},
       {"toolchains changed", std::to_string(stats.toolchains_changed())},
       {"in quarantine",
        fmt::format("{}, {} refused", FormatCount(stats.sources_quarantined(), "kernel"),
                    FormatCount(stats.quarantine_refusals(), "request"))},
       {"jail", Jail(stats)},
       {"audits",
        fmt::format("{} the same, {} wrong and evicted, {} not deterministic, {} given "
                    "up, {} waiting",
                    stats.audits_same(), stats.audits_differed(), stats.audits_nondeterministic(),
                    stats.audits_given_up(), stats.audits_waiting())},
       {"CPU time", FormatDuration(std::chrono::microseconds(
                        static_cast<int64_t>(stats.compile_cpu_micros())))}});
  std::vector<std::string> names;
  for (const auto& toolchain : stats.toolchains()) names.push_back(toolchain.name());
  Fields toolchains;
  for (const auto& toolchain : stats.toolchains()) {
    toolchains.emplace_back(
        ToolchainLabel(toolchain.name(), toolchain.fingerprint(), names),
        fmt::format("{}, {}, {}, {} queued", toolchain.state(),
                    FormatCount(toolchain.workers(), "worker"),
                    FormatCount(toolchain.compiles(), "compile"), toolchain.queued()));
  }
  PrintFields(console, "Toolchains", toolchains);
}

void PrintCounters(Console& console, const Stats& stats) {
  Fields counters;
  for (const auto& counter : stats.counters()) {
    counters.emplace_back(counter.name(), std::to_string(counter.value()));
  }
  PrintFields(console, "Counters", counters);
}

ExitCode RunStats(Session& session) {
  Console& console = session.console();
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const auto stats = (*admin)->GetStats(session.Call(kQuestionTime));
  if (!stats.ok()) return Fail(console, "stats", stats.status());
  if (session.json()) {
    console.out << Dump(*stats) << std::endl;
    return kOk;
  }
  if (!console.aligned) {
    PrintTabbed(console, Flatten(*stats));
    return kOk;
  }
  PrintDaemon(console, *stats);
  PrintRequests(console, *stats);
  PrintStore(console, *stats);
  PrintWork(console, *stats);
  PrintCounters(console, *stats);
  return kOk;
}

}  // namespace

void AddStats(CommandParser& parser) {
  parser.AddSubcommand("stats", "Show what the daemon has done and holds", RunStats);
}

}  // namespace kiln::cli
