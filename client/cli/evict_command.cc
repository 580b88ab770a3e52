#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/keys.h"
#include "client/rpc/admin_client.h"

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
  return arguments.to.empty() ? absl::OkStatus() : ParseBytes(arguments.to).status();
}

absl::StatusOr<admin::v1::EvictResponse> Evict(const EvictArguments& arguments, AdminClient& admin,
                                               const CallOptions& call) {
  admin::v1::EvictRequest request;
  request.set_all(arguments.all);
  request.set_force(arguments.force);
  if (!arguments.to.empty()) {
    KILN_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(arguments.to));
    request.set_target_bytes(bytes);
  }
  for (const std::string& text : arguments.keys) {
    auto key = ResolveKey(admin, text, call);
    if (!key.ok()) return Annotate(key.status(), text);
    request.add_keys(std::string(key->Bytes()));
  }
  return admin.Evict(request, call);
}

template <typename Keys>
std::vector<std::string> HexOf(const Keys& keys) {
  std::vector<std::string> digits;
  for (const std::string& key : keys) digits.push_back(Hex(key));
  return digits;
}

void Print(Console& console, const admin::v1::EvictResponse& response) {
  console.out << fmt::format("evicted {}, freed {}\n", response.evicted(),
                             FormatBytes(response.freed_bytes()));
  if (response.released() > 0) {
    console.out << fmt::format("released {} from quarantine\n", response.released());
  }
  for (const std::string& key : response.kept_pinned()) {
    console.err << "kiln: " << Hex(key) << " is pinned\n  try: --force, or kiln pin --unpin\n";
  }
  for (const std::string& key : response.not_found()) {
    console.err << "kiln: " << Hex(key) << " is not in the cache\n";
  }
}

ExitCode RunEvict(const EvictArguments& arguments, Session& session) {
  Console& console = session.console();
  if (absl::Status status = CheckUsage(arguments); !status.ok()) {
    return CannotRun(console, "evict", status);
  }
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  const auto response = Evict(arguments, **admin, session.Call());
  if (!response.ok()) return Fail(console, "evict", response.status());
  if (session.json()) {
    console.out << DumpFields({{"evicted", response->evicted()},
                               {"freed_bytes", response->freed_bytes()},
                               {"released", response->released()},
                               {"kept_pinned", HexOf(response->kept_pinned())},
                               {"not_found", HexOf(response->not_found())}})
                << std::endl;
  } else {
    Print(console, *response);
  }
  return response->kept_pinned().empty() && response->not_found().empty() ? kOk : kFailed;
}

}  // namespace

void AddEvict(CommandParser& parser) {
  const auto arguments = std::make_shared<EvictArguments>();
  const Command run = [arguments](Session& session) { return RunEvict(*arguments, session); };
  Arguments command = parser.AddSubcommand("evict", "Remove artifacts from the cache", run);
  command.Add("KEY", arguments->keys, "64 hex digits, or the first 4 and more");
  command.AddFlag("--all", arguments->all, "Everything that is not pinned");
  command.Add("--to", arguments->to,
              "The least valuable, until the store takes at most this much, as 5G",
              {.value_name = "SIZE"});
  command.AddFlag("--force", arguments->force, "Also pinned ones among the named keys");
}

}  // namespace kiln::cli
