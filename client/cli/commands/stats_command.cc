#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/commands/activity_tables.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "storage/base/clock.h"
#include "storage/base/users.h"

namespace kiln::cli {
namespace {

using Stats = admin::v1::GetStatsResponse;

struct StatsArguments {
  bool is_verbose = false;
  bool jobs = false;
  bool days = false;
};

// A line under `title`. In `text`, "{name}" stands for the field of that name, "{name:noun}" for a
// count of such things, "{name%}" for a count and its share of all requests.
struct Row {
  std::string_view title;
  std::string_view name;
  std::string_view text;
};

constexpr Row kRows[] = {
    {"Kiln", "hit rate", "{hit_rate_text}"},
    {"Kiln", "saved", "{saved_text}"},
    {"Kiln", "entries", "{artifacts:artifact}, {store_bytes} of {store_bytes_max}"},
    {"Kiln", "queue", "{queued} queued, {running} of {running_max} running"},
    {"Kiln", "health", "{health_text}"},
    {"Daemon", "version", "{version}"},
    {"Daemon", "up for", "{age}"},
    {"Daemon", "connections", "{connections}"},
    {"Requests", "all since the start", "{requests}"},
    {"Requests", "hits in memory", "{hits_memory%}"},
    {"Requests", "hits on disk", "{hits_disk%}"},
    {"Requests", "joined", "{joined%}"},
    {"Requests", "compiled", "{compiled%}"},
    {"Requests", "failed", "{failed%}"},
    {"Requests", "rejected", "{rejected%}"},
    {"Requests", "not found", "{not_found%}"},
    {"Requests", "abandoned", "{abandoned%}"},
    {"Requests", "errors", "{errors%}"},
    {"Requests", "under way", "{in_flight%}"},
    {"Store", "artifacts", "{artifacts}"},
    {"Store", "size", "{store_bytes} of {store_bytes_max}"},
    {"Store", "free on disk", "{free_disk_bytes}, {free_disk_bytes_min} to stay"},
    {"Store", "evicted", "{evicted}"},
    {"Store", "quarantined", "{quarantined}"},
    {"Store", "leased", "{leased:artifact}, {leased_bytes}"},
    {"Store", "own namespaces", "{own_users:user}, {own_entries:key}, {own_bytes}"},
    {"Store", "hot directory", "{hot_files:file}, {hot_bytes}"},
    {"Work", "queued", "{queued}{queue_text}, {queued_bytes}"},
    {"Work", "running", "{running} of {running_max}"},
    {"Work", "memory",
     "{available_memory_bytes} available, {expected_memory_bytes} expected for what runs, pressure "
     "{memory_pressure_percent} %, {held_back:compile} held back"},
    {"Work", "workers",
     "{workers} ({workers_started} started, {workers_killed} killed, {workers_crashed} crashed, "
     "{workers_aborted} aborted, {workers_idled} idled)"},
    {"Work", "zygotes replaced", "{zygotes_replaced}"},
    {"Work", "toolchains changed", "{toolchains_changed}"},
    {"Work", "in quarantine",
     "{sources_quarantined:kernel}, {quarantine_refusals:request} refused"},
    {"Work", "jail", "{jail_text}"},
    {"Work", "plain limits", "{plain_limits_text}"},
    {"Work", "audits",
     "{audits_same} the same, {audits_differed} wrong and evicted, {audits_nondeterministic} not "
     "deterministic, {audits_given_up} given up, {audits_waiting} waiting"},
    {"Work", "CPU time", "{compile_cpu_micros}"},
    {"Compositions", "compile path", "{compile_path}"},
    {"Compositions", "store", "{store}"},
};
constexpr std::string_view kVerboseTitle = "Compositions";
// Numbers above zero that say that something is, or was, wrong.
constexpr std::pair<const char*, const char*> kTroubles[] = {
    {"audits_differed", "stored kernels were wrong"},
    {"quarantined", "stored values were damaged"},
    {"workers_crashed", "workers crashed"},
    {"zygotes_replaced", "zygotes were replaced"},
    {"toolchains_changed", "toolchains changed on disk"},
    {"store_put_failures", "artifacts were not stored"},
    {"store_lookup_failures", "look-ups failed"},
};
constexpr std::string_view kToolchainText =
    "{state}, {workers:worker}, {compiles:compile}, {queued} queued";

// In the order of `queued_by_priority`.
constexpr const char* kPriorities[] = {"waiting rank", "autotune", "warm", "background"};

Json Number(double value) {
  const auto whole = static_cast<uint64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

// The texts, and every metric as a field of its name.
Json ToStatsJson(const Stats& stats) {
  constexpr std::string_view kOfToolchainAlone = "toolchain_";
  Json json = ToJson(stats);
  json.erase("metrics");
  for (const auto& metric : stats.metrics()) {
    std::string_view name = metric.name();
    for (Json& toolchain : json["toolchains"]) {
      const auto label = metric.labels().find("fingerprint");
      if (label == metric.labels().end() || toolchain["fingerprint"] != label->second) continue;
      if (name.starts_with(kOfToolchainAlone)) name.remove_prefix(kOfToolchainAlone.size());
      toolchain[std::string(name)] = Number(metric.value());
    }
    json[metric.name()] = Number(*FindMetric(stats, metric.name()));
  }
  for (const char* priority : kPriorities) {
    json["queued_by_priority"].push_back(MetricValue(stats, "queued", "priority", priority));
  }
  return json;
}

// What the jobs come to together.
void AddTotals(const Stats& stats, Json& json) {
  uint64_t hits = 0;
  uint64_t requests = 0;
  uint64_t saved_micros = 0;
  for (const auto& job : stats.jobs()) {
    hits += HitsOf(job);
    requests += HitsOf(job) + job.compiled() + job.failed();
    saved_micros += job.saved_micros();
  }
  const std::string age = FormatAge(stats.counted_since_unix_ms(), SystemClock().UnixMillis());
  const double share =
      requests == 0 ? 0 : 100 * static_cast<double>(hits) / static_cast<double>(requests);
  json["hit_rate_text"] = requests == 0 ? "nothing asked for yet"
                                        : fmt::format("{:.1f} % of {} in {}", share,
                                                      FormatCount(requests, "kernel"), age);
  json["saved_text"] = Saved(saved_micros) + " of compiling";
}

std::string HealthOf(const Json& json) {
  const std::string reason = json["state_reason"];
  std::string health = json["state"].get<std::string>() + (reason.empty() ? "" : ": " + reason);
  for (const auto& [name, words] : kTroubles) {
    const auto found = json.find(name);
    if (found != json.end() && *found != 0) health += fmt::format("; {} {}", Dump(*found), words);
  }
  return health;
}

// Adds what the table says in other words.
void AddTexts(Json& json) {
  json["health_text"] = HealthOf(json);
  json["age"] = FormatAge(json["started_unix_ms"], SystemClock().UnixMillis());
  std::string shares;
  for (size_t i = 0; i < std::size(kPriorities); ++i) {
    const Json& count = json["queued_by_priority"][i];
    if (count == 0) continue;
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", Dump(count), kPriorities[i]);
  }
  json["queue_text"] = shares.empty() ? "" : fmt::format(" ({})", shares);
  std::string jail = json["jail"];
  for (const std::string problem : json["jail_problems"]) jail += ", but " + problem;
  json["jail_text"] = jail;
  const std::vector<std::string> plain = json["plain_limits"];
  json["plain_limits_text"] = fmt::format("{}", fmt::join(plain, "; "));
}

// In the unit with which the name ends.
std::string Format(std::string_view name, const Json& value) {
  if (value.is_string()) return value;
  if (name.find("_bytes") != std::string_view::npos) return FormatBytes(value);
  if (name.ends_with("_percent")) return fmt::format("{:.1f}", value.get<double>());
  if (name.ends_with("_micros")) return FormatDuration(std::chrono::microseconds(value));
  return Dump(value);
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0";
  return fmt::format("{} ({:.1f} %)", part,
                     100 * static_cast<double>(part) / static_cast<double>(whole));
}

// What stands between two braces of a row's text.
std::string Expand(std::string_view word, const Json& json) {
  const size_t end = std::min(word.find_first_of(":%"), word.size());
  const std::string name(word.substr(0, end));
  const auto found = json.find(name);
  if (found == json.end()) return "unknown";
  if (word.ends_with('%')) return Share(*found, json.value("requests", uint64_t{0}));
  if (end < word.size()) return FormatCount(*found, word.substr(end + 1));
  return Format(name, *found);
}

std::string ExpandAll(std::string_view text, const Json& json) {
  std::string expanded;
  while (true) {
    const size_t open = text.find('{');
    expanded += text.substr(0, open);
    if (open == std::string_view::npos) return expanded;
    const size_t close = text.find('}');
    expanded += Expand(text.substr(open + 1, close - open - 1), json);
    text.remove_prefix(close + 1);
  }
}

bool HasRow(const std::string& metric) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
    const size_t found = row.text.find("{" + metric);
    return found != std::string_view::npos &&
           std::string_view("}:%").find(row.text[found + metric.size() + 1]) != std::string::npos;
  });
}

void PrintTable(Console& console, const Stats& stats, bool is_verbose) {
  Json json = ToStatsJson(stats);
  AddTexts(json);
  AddTotals(stats, json);
  for (const Row* row = std::begin(kRows); row != std::end(kRows);) {
    const std::string_view title = row->title;
    Fields fields;
    for (; row != std::end(kRows) && row->title == title; ++row) {
      fields.emplace_back(row->name, ExpandAll(row->text, json));
    }
    if (title != kVerboseTitle || is_verbose) PrintFields(console, title, fields);
    if (title == kRows[0].title) PrintJobs(console, stats, is_verbose);
  }
  std::vector<std::string> names;
  for (const auto& toolchain : stats.toolchains()) names.push_back(toolchain.name());
  Fields toolchains;
  for (int i = 0; i < stats.toolchains_size(); ++i) {
    toolchains.emplace_back(
        ToolchainLabel(stats.toolchains(i).name(), stats.toolchains(i).fingerprint(), names),
        ExpandAll(kToolchainText, json["toolchains"][static_cast<size_t>(i)]));
  }
  PrintFields(console, "Toolchains", toolchains);
  Fields others;
  for (const auto& metric : stats.metrics()) {
    if (!metric.labels().empty() || HasRow(metric.name())) continue;
    others.emplace_back(metric.name(), Format(metric.name(), json[metric.name()]));
  }
  PrintFields(console, "Counters", others);
}

// The caller's own jobs.
void PrintOwnTable(Console& console, const Stats& stats, bool is_verbose) {
  Json json;
  AddTotals(stats, json);
  PrintFields(console, "Kiln",
              {{"hit rate", json["hit_rate_text"].get<std::string>()},
               {"saved", json["saved_text"].get<std::string>()},
               {"state", stats.state()}});
  PrintJobs(console, stats, is_verbose);
}

absl::StatusOr<ExitCode> RunStats(const StatsArguments& arguments, Session& session) {
  Console& console = session.console();
  if (arguments.jobs && arguments.days)
    return CannotRun(InvalidArgument("give one of --jobs and --days"));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdminOrOwn());
  KILN_ASSIGN_OR_RETURN(const auto stats, admin->GetStats(session.Call(kQuestionTime)));
  if (session.json()) {
    console.out << Dump(ToStatsJson(stats)) << std::endl;
  } else if (arguments.jobs) {
    PrintAllJobs(console, stats);
  } else if (arguments.days) {
    PrintDays(console, stats);
  } else if (console.aligned && admin->is_own()) {
    PrintOwnTable(console, stats, arguments.is_verbose);
  } else if (console.aligned) {
    PrintTable(console, stats, arguments.is_verbose);
  } else {
    PrintTabbed(console, Flatten(ToStatsJson(stats)));
  }
  return kOk;
}

}  // namespace

void AddStats(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "stats", "Show what the daemon has done and holds, for you and for whom else you may see",
      RunStats);
  command.AddFlag("--jobs", arguments.jobs,
                  "Every job: its hits, its compiles, those after a warm, and what it was spared");
  command.AddFlag("--days", arguments.days, "The same for each day, of all jobs together");
  command.AddFlag("--verbose", arguments.is_verbose,
                  "Also every job, and what compile path and store are composed of");
}

}  // namespace kiln::cli
