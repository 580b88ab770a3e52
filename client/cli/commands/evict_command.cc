#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "storage/base/units.h"

namespace kiln::cli {
namespace {

struct EvictArguments {
  std::vector<std::string> keys;
  bool all = false;
  std::string to;
  bool force = false;
};

absl::Status CheckUsage(const EvictArguments& arguments) {
  const int ways =
      (arguments.keys.empty() ? 0 : 1) + (arguments.all ? 1 : 0) + (arguments.to.empty() ? 0 : 1);
  if (ways != 1) return InvalidArgument("give one of KEY…, --all and --to SIZE");
  if (arguments.force && arguments.keys.empty()) {
    return InvalidArgument("--force goes with keys: pinned artifacts are evicted by name only");
  }
  for (const std::string& text : arguments.keys) KILN_RETURN_IF_ERROR(CheckKey(text));
  if (arguments.to.empty()) return absl::OkStatus();
  return Annotate(ParseSize(arguments.to).status(), fmt::format("--to {}", arguments.to));
}

struct Evicted {
  admin::v1::EvictResponse response;
  std::vector<std::string> not_found;  // as hex: the whole key, or what was given of it
};

absl::StatusOr<Evicted> Evict(const EvictArguments& arguments, AdminClient& admin,
                              const CallOptions& call) {
  Evicted evicted;
  admin::v1::EvictRequest request;
  request.set_all(arguments.all);
  request.set_force(arguments.force);
  if (!arguments.to.empty()) {
    KILN_ASSIGN_OR_RETURN(const uint64_t bytes, ParseSize(arguments.to));
    request.set_target_bytes(bytes);
  }
  for (const std::string& text : arguments.keys) {
    const auto key = ResolveKey(admin, text, call);
    if (absl::IsNotFound(key.status())) {
      evicted.not_found.push_back(text);
      continue;
    }
    if (!key.ok()) return key.status();
    request.add_keys(std::string(key->Bytes()));
  }
  if (request.keys().empty() && !arguments.keys.empty()) return evicted;
  KILN_ASSIGN_OR_RETURN(evicted.response, admin.Evict(call, request));
  for (const std::string& key : evicted.response.not_found()) {
    evicted.not_found.push_back(Hex(key));
  }
  return evicted;
}

void Print(Console& console, const Evicted& evicted) {
  console.out << fmt::format("evicted {}, freed {}\n", evicted.response.evicted(),
                             FormatBytes(evicted.response.freed_bytes()));
  if (evicted.response.released() > 0) {
    console.out << fmt::format("released {} from quarantine\n", evicted.response.released());
  }
  for (const std::string& key : evicted.response.kept_pinned()) {
    console.err << "kiln: " << Hex(key) << ": is pinned\n  try: --force, or kiln pin --unpin\n";
  }
  for (const std::string& key : evicted.not_found) {
    console.err << "kiln: " << key << ": not in the cache\n";
  }
}

// How much more than the goal the store takes.
absl::StatusOr<uint64_t> Excess(const EvictArguments& arguments, AdminClient& admin,
                                const CallOptions& call) {
  if (arguments.to.empty()) return 0;
  KILN_ASSIGN_OR_RETURN(const uint64_t goal, ParseSize(arguments.to));
  KILN_ASSIGN_OR_RETURN(const auto stats, admin.GetStats(call));
  const uint64_t bytes = MetricValue(stats, "store_bytes");
  return bytes - std::min(bytes, goal);
}

absl::StatusOr<ExitCode> RunEvict(const EvictArguments& arguments, Session& session) {
  Console& console = session.console();
  KILN_RETURN_IF_ERROR(CannotRun(CheckUsage(arguments)));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  KILN_ASSIGN_OR_RETURN(const Evicted evicted, Evict(arguments, *admin, session.Call()));
  if (session.json()) {
    Json json = ToJson(evicted.response);
    json["not_found"] = evicted.not_found;
    console.out << Dump(json) << std::endl;
  } else {
    Print(console, evicted);
  }
  KILN_ASSIGN_OR_RETURN(const uint64_t excess, Excess(arguments, *admin, session.Call()));
  if (excess > 0) {
    console.err << fmt::format(
        "kiln: the store takes {} more than that: what is left is pinned, or was stored just now\n"
        "  try: again, or kiln pin --unpin\n",
        FormatBytes(excess));
    return kFailed;
  }
  return evicted.response.kept_pinned().empty() && evicted.not_found.empty() ? kOk : kFailed;
}

}  // namespace

void AddEvict(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("evict", "Remove artifacts from the cache", RunEvict);
  command.Add("KEY", arguments.keys, kKeyHelp);
  command.AddFlag("--all", arguments.all, "Everything that is not pinned");
  command.Add(
      "--to", arguments.to,
      "The least valuable, what was warmed last, until the store takes at most this much, as 5G",
      {.value_name = "SIZE"});
  command.AddFlag("--force", arguments.force, "Also pinned ones among the named keys");
}

}  // namespace kiln::cli
