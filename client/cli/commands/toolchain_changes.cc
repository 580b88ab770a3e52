#include "client/cli/commands/toolchain_changes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/commands/toolchain_list.h"
#include "client/cli/commands/toolchain_place.h"
#include "client/cli/output/format.h"
#include "client/rpc/admin_client.h"
#include "storage/base/release.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kPtxas = "ptxas";

// "/x/y" for "/x//y/" and, in /x, for "y".
std::string Absolute(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error) / "";
  return absolute.lexically_normal().parent_path().string();
}

absl::Status CheckAddition(const ToolchainAddition& wanted, const ToolchainName& name) {
  const bool can_be_installed = IsInstallable(name.name);
  if (!can_be_installed && name.name != kPtxas) {
    return InvalidArgument(
        "toolchains are called triton, nvrtc (CUDA's compiler of C++) and ptxas, and none {}",
        name.name);
  }
  if (!wanted.path.empty()) return absl::OkStatus();
  if (!can_be_installed) {
    return InvalidArgument(
        "triton and nvrtc are what can be installed; use a {} that is there with --path DIR",
        name.name);
  }
  const std::string_view example = name.name == "triton" ? "3.6.0" : "12.9.86";
  if (name.version.empty()) {
    return InvalidArgument("say which version: {}==VERSION, as {}", name.name, example);
  }
  if (IsRelease(name.version)) return absl::OkStatus();
  return InvalidArgument("a version to install has three numbers, as {}=={}; {} has not", name.name,
                         example, name.version);
}

absl::StatusOr<std::string> PlaceFor(const std::string& into,
                                     const std::vector<std::string>& searched) {
  if (into.empty()) return ChoosePlace(searched);
  const std::string place = Absolute(into);
  const bool is_searched =
      std::any_of(searched.begin(), searched.end(),
                  [&](const std::string& each) { return Absolute(each) == place; });
  if (is_searched) return place;
  return FailedPrecondition("the daemon does not look into {}, but into {}", place,
                            fmt::join(searched, ", "));
}

// The directory to add: one that is there, or a new installation.
absl::StatusOr<std::string> PathOf(const ToolchainAddition& wanted, const ToolchainName& name,
                                   AdminClient& admin, Session& session) {
  if (!wanted.path.empty()) return Absolute(wanted.path);
  KILN_ASSIGN_OR_RETURN(const auto here, admin.ListToolchains(session.Call(kQuestionTime)));
  KILN_ASSIGN_OR_RETURN(const std::string place, PlaceFor(wanted.into, {here.directories().begin(),
                                                                        here.directories().end()}));
  return InstallToolchain(place, name);
}

absl::StatusOr<std::string> Add(const ToolchainAddition& wanted, const ToolchainName& name,
                                AdminClient& admin, Session& session) {
  admin::v1::AddToolchainRequest request;
  KILN_ASSIGN_OR_RETURN(*request.mutable_path(), PathOf(wanted, name, admin, session));
  request.set_name(name.name);
  request.set_version(name.version);
  KILN_ASSIGN_OR_RETURN(const auto added, admin.AddToolchain(session.Call(), request));
  if (added.is_new()) return "added " + added.installation();
  return fmt::format("{} is already there: {}, fingerprint {}", added.installation(), added.name(),
                     Hex(added.fingerprint()));
}

// Says what was done, and shows the toolchains that the daemon has now.
ExitCode Tell(Session& session, AdminClient& admin, std::string_view command,
              const absl::StatusOr<std::string>& done) {
  if (!done.ok()) return Fail(session.console(), command, done.status());
  session.console().err << Printable(*done) << '\n';
  const auto here = admin.ListToolchains(session.Call(kQuestionTime));
  if (!here.ok()) return Fail(session.console(), command, here.status());
  PrintToolchains(session, *here);
  return kOk;
}

}  // namespace

ExitCode AddToolchain(const ToolchainAddition& wanted, Session& session) {
  const auto name = ParseToolchainName(wanted.what);
  const absl::Status usage = name.ok() ? CheckAddition(wanted, *name) : name.status();
  if (!usage.ok()) return CannotRun(session.console(), "toolchain add", usage);
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(session.console(), admin.status());
  return Tell(session, **admin, "toolchain add", Add(wanted, *name, **admin, session));
}

ExitCode RemoveToolchain(const std::string& what, Session& session) {
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(session.console(), admin.status());
  admin::v1::RemoveToolchainRequest request;
  request.set_selector(what);
  const auto removed = (*admin)->RemoveToolchain(session.Call(), request);
  if (!removed.ok()) return Fail(session.console(), "toolchain remove", removed.status());
  const std::string done =
      fmt::format("removed {}: {}", removed->installation(), fmt::join(removed->names(), ", "));
  return Tell(session, **admin, "toolchain remove", done);
}

}  // namespace kiln::cli
