#include <algorithm>
#include <optional>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/toolchain_changes.h"
#include "client/cli/commands/toolchain_list.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

struct ToolchainArguments {
  std::string action;
  std::string what;
  std::string path;
  std::string into;
  bool newest = false;
};

absl::Status CheckUsage(const ToolchainArguments& given) {
  const bool is_add = given.action == "add";
  const bool is_default = given.action == "default";
  const bool takes_what = is_add || is_default || given.action == "remove";
  if (!takes_what && given.action != "list" && given.action != "reload") {
    return InvalidArgument("'{}' is none of list, add, remove, default and reload", given.action);
  }
  if (!is_add && !(given.path.empty() && given.into.empty())) {
    return InvalidArgument("--path and --into go with add");
  }
  if (!given.path.empty() && !given.into.empty()) {
    return InvalidArgument("--into says where to install; what --path names stays where it is");
  }
  if (!is_default && given.newest) return InvalidArgument("--newest goes with default");
  const bool has_what = !given.what.empty() || given.newest;
  if (has_what == takes_what && !(given.newest && !given.what.empty())) return absl::OkStatus();
  if (!takes_what)
    return InvalidArgument("{} takes nothing; '{}' is too much", given.action, given.what);
  return InvalidArgument("say which toolchain: NAME==VERSION{}", is_default ? ", or --newest" : "");
}

ExitCode RunList(Session& session) {
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(session.console(), admin.status());
  const auto here = (*admin)->ListToolchains(session.Call(kQuestionTime));
  if (!here.ok()) return Fail(session.console(), "toolchain list", here.status());
  PrintToolchains(session, *here);
  return kOk;
}

ExitCode RunReload(Session& session) {
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(session.console(), admin.status());
  const absl::Status reloaded = (*admin)->ReloadToolchains(session.Call()).status();
  if (!reloaded.ok()) return Fail(session.console(), "toolchain reload", reloaded);
  return RunList(session);
}

ExitCode RunDefault(const ToolchainArguments& given, Session& session) {
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(session.console(), admin.status());
  admin::v1::SetDefaultToolchainRequest request;
  if (!given.newest) request.set_selector(given.what);
  const absl::Status set =
      (*admin)->SetDefaultToolchain(session.Call(kQuestionTime), request).status();
  if (!set.ok()) return Fail(session.console(), "toolchain default", set);
  return RunList(session);
}

ExitCode RunToolchain(const ToolchainArguments& given, Session& session) {
  if (const absl::Status usage = CheckUsage(given); !usage.ok()) {
    return CannotRun(session.console(), "toolchain", usage);
  }
  if (given.action == "list") return RunList(session);
  if (given.action == "reload") return RunReload(session);
  if (given.action == "default") return RunDefault(given, session);
  if (given.action == "remove") return RemoveToolchain(given.what, session);
  return AddToolchain({given.what, given.path, given.into}, session);
}

}  // namespace

void AddToolchainCommand(CommandParser& parser) {
  const auto given = std::make_shared<ToolchainArguments>();
  const Command run = [given](Session& session) { return RunToolchain(*given, session); };
  Arguments command = parser.AddSubcommand(
      "toolchain", "List, add, remove toolchains, choose the default: without a restart", run);
  command.Add("ACTION", given->action, "list, add, remove, default, or reload: look around again",
              {.is_required = true});
  command.Add("NAME", given->what,
              "NAME==VERSION, as triton==3.7.1 or nvrtc==12.9.86; remove and default take a "
              "fingerprint too");
  command.Add("--path", given->path,
              "add: use what is installed in this directory, in place (NAME alone will do)",
              {.value_name = "DIR", .is_path = true});
  command.Add("--into", given->into,
              "add: install it into this directory, not into the first that the daemon searches",
              {.value_name = "DIR", .is_path = true});
  command.AddFlag("--newest", given->newest, "default: take a choice back");
}

}  // namespace kiln::cli
