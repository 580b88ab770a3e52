#include "client/cli/commands/toolchain_changes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/commands/toolchain_layout.h"
#include "client/cli/commands/toolchain_list.h"
#include "client/cli/commands/toolchain_place.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/wedged.h"
#include "storage/base/release.h"

namespace kiln::cli {
namespace {

using admin::v1::HeldToolchain;
using admin::v1::ListToolchainsResponse;

constexpr std::string_view kPtxas = "ptxas";
constexpr std::string_view kSha256 = "sha256:";

// "/x/y" for "/x//y/": what is written by different hands is compared.
std::string Normal(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

bool IsSame(const std::string& path, const std::string& other) {
  return Normal(path) == Normal(other);
}

// A daemon, or none: then what is done on disk counts from its next start on.
class DaemonSide {
 public:
  explicit DaemonSide(Session& session) : session_(session) {}

  // Not OK where there is a daemon that cannot be asked.
  absl::Status Connect() {
    auto admin = session_.ConnectAdmin();
    if (absl::IsUnavailable(admin.status()) && !IsWedgedStatus(admin.status())) {
      return absl::OkStatus();
    }
    if (!admin.ok()) return admin.status();
    admin_ = *std::move(admin);
    return Refresh();
  }
  bool IsThere() const { return admin_ != nullptr; }

  absl::Status Reload() {
    if (!IsThere()) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(admin_->ReloadToolchains(session_.Call()));
    return Refresh();
  }

  const ListToolchainsResponse& here() const { return here_; }
  std::vector<std::string> directories() const {
    return {here_.directories().begin(), here_.directories().end()};
  }
  std::vector<HeldToolchain> In(const std::string& installation) const {
    std::vector<HeldToolchain> found;
    for (const HeldToolchain& held : here_.toolchains()) {
      if (IsSame(held.installation(), installation)) found.push_back(held);
    }
    return found;
  }

 private:
  absl::Status Refresh() {
    KILN_ASSIGN_OR_RETURN(here_, admin_->ListToolchains(session_.Call(kQuestionTime)));
    return absl::OkStatus();
  }

  Session& session_;
  std::unique_ptr<AdminClient> admin_;
  ListToolchainsResponse here_;
};

std::string NameOf(const HeldToolchain& held) {
  return fmt::format("{}=={}", held.toolchain().name(), held.toolchain().version());
}

absl::StatusOr<std::string> PlaceFor(const ToolchainAddition& wanted, const DaemonSide& daemon) {
  const std::vector<std::string> searched = daemon.directories();
  if (wanted.into.empty()) return daemon.IsThere() ? ChoosePlace(searched) : OwnPlace();
  std::error_code error;
  const std::string into = Normal(std::filesystem::absolute(wanted.into, error).string());
  const bool is_searched = std::any_of(searched.begin(), searched.end(),
                                       [&](const std::string& each) { return IsSame(each, into); });
  if (!daemon.IsThere() || is_searched) return into;
  return FailedPrecondition("the daemon does not look into {}, but into {}", into,
                            fmt::join(searched, ", "));
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

// Why nothing of `installation` answers to the name.
absl::Status WhyNotThere(const DaemonSide& daemon, const std::string& installation,
                         const ToolchainName& name) {
  for (const auto& rejected : daemon.here().rejected()) {
    if (!IsSame(rejected.installation(), installation)) continue;
    return FailedPrecondition("{} is not used: {}; mend that or install it anew, and add it again",
                              rejected.path(), rejected.reason());
  }
  for (const HeldToolchain& held : daemon.In(installation)) {
    if (held.toolchain().name() != name.name) continue;
    return FailedPrecondition("what it has is {}, and not {}=={}", NameOf(held), name.name,
                              name.version);
  }
  return FailedPrecondition(
      "the daemon has the same {} already, by another path ('kiln toolchain list')", name.name);
}

// What the daemon has of that name in an installation.
std::optional<HeldToolchain> FindIn(const DaemonSide& daemon, const std::string& installation,
                                    const ToolchainName& name) {
  for (const HeldToolchain& held : daemon.In(installation)) {
    const bool is_named = held.toolchain().name() == name.name &&
                          (name.version.empty() || held.toolchain().version() == name.version);
    if (is_named) return held;
  }
  return std::nullopt;
}

ExitCode Tell(Session& session, const DaemonSide& daemon, const std::string& what) {
  session.console().err << what << '\n';
  if (!daemon.IsThere()) {
    session.console().err << "no daemon runs here: it counts when one starts that looks there\n";
    return kOk;
  }
  PrintToolchains(session, daemon.here());
  return kOk;
}

// Where the daemon has what lies in `directory` already, by whatever path; "" where it has not.
std::string ServedFrom(const std::string& directory, const DaemonSide& daemon,
                       const ToolchainName& name) {
  std::error_code error;
  for (const HeldToolchain& held : daemon.here().toolchains()) {
    const std::string& installation = held.installation();
    if (std::filesystem::equivalent(directory, installation, error) && !error &&
        FindIn(daemon, installation, name)) {
      return installation;
    }
  }
  return "";
}

struct Installation {
  std::string path;
  std::string place;  // the searched directory that it was put into; "": it was there
  bool is_new_link = false;
};

absl::StatusOr<Installation> PutOnDisk(const ToolchainAddition& wanted, const ToolchainName& name,
                                       const DaemonSide& daemon) {
  Installation made;
  if (!wanted.path.empty()) made.path = ServedFrom(wanted.path, daemon, name);
  if (!made.path.empty()) return made;
  // The same whether a daemon runs or not, and before anything is made.
  if (!wanted.path.empty()) KILN_RETURN_IF_ERROR(CheckHolds(wanted.path, name.name));
  KILN_ASSIGN_OR_RETURN(made.place, PlaceFor(wanted, daemon));
  KILN_ASSIGN_OR_RETURN(made.path,
                        wanted.path.empty()
                            ? InstallToolchain(made.place, name)
                            : LinkToolchain(made.place, name.name, wanted.path, made.is_new_link));
  return made;
}

// Has the daemon look, and says what that changed.
absl::StatusOr<std::string> Introduce(const std::string& installation, const ToolchainName& name,
                                      DaemonSide& daemon) {
  if (!daemon.IsThere()) return "added " + installation;
  const auto before = FindIn(daemon, installation, name);
  KILN_RETURN_IF_ERROR(daemon.Reload());
  const auto now = FindIn(daemon, installation, name);
  if (!now) return WhyNotThere(daemon, installation, name);
  const std::string& fingerprint = now->toolchain().fingerprint();
  if (!before || before->toolchain().fingerprint() != fingerprint) return "added " + installation;
  return fmt::format("{} is already there: {}, fingerprint {}", installation, NameOf(*now),
                     Hex(fingerprint));
}

absl::StatusOr<std::string> Add(const ToolchainAddition& wanted, DaemonSide& daemon) {
  KILN_ASSIGN_OR_RETURN(const ToolchainName name, ParseToolchainName(wanted.what));
  KILN_RETURN_IF_ERROR(CheckAddition(wanted, name));
  KILN_ASSIGN_OR_RETURN(const Installation made, PutOnDisk(wanted, name, daemon));
  absl::StatusOr<std::string> introduced = Introduce(made.path, name, daemon);
  if (!introduced.ok() && made.is_new_link) {
    SetToolchainAside(made.place, made.path).IgnoreError();
    daemon.Reload().IgnoreError();
  }
  return introduced;
}

// A fingerprint's hex digits, all of them or the beginning that `kiln toolchain list` shows, with
// or without "sha256:" in front; "" for anything else, as a name.
std::string_view FingerprintDigits(std::string_view what) {
  if (what.starts_with(kSha256)) what.remove_prefix(kSha256.size());
  const bool is_hex = what.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_hex && what.size() >= kFingerprintDigitsShown ? what : "";
}

bool IsNamed(const HeldToolchain& held, std::string_view what) {
  const std::string_view digits = FingerprintDigits(what);
  if (digits.empty()) return NameOf(held) == what;
  return Hex(held.toolchain().fingerprint()).starts_with(digits);
}

// The toolchain that `what` means, a name with its version or a fingerprint, where only one
// installation has such a one.
absl::StatusOr<HeldToolchain> FindNamed(const DaemonSide& daemon, const std::string& what) {
  std::vector<HeldToolchain> named;
  for (const HeldToolchain& held : daemon.here().toolchains()) {
    if (IsNamed(held, what)) named.push_back(held);
  }
  if (named.empty()) {
    return NotFound("the daemon has no {}; 'kiln toolchain list' shows what it has", what);
  }
  const bool is_one = std::all_of(named.begin(), named.end(), [&](const HeldToolchain& other) {
    return IsSame(other.installation(), named.front().installation());
  });
  if (is_one) return named.front();
  std::vector<std::string> each;
  for (const HeldToolchain& held : named) {
    each.push_back(
        fmt::format("{} in {}", Hex(held.toolchain().fingerprint()), held.installation()));
  }
  return FailedPrecondition("there is more than one {}: say its fingerprint instead: {}", what,
                            fmt::join(each, ", "));
}

// Every toolchain that goes when `what` does: all of its installation.
absl::StatusOr<std::vector<HeldToolchain>> FindRemoved(const DaemonSide& daemon,
                                                       const std::string& what) {
  KILN_ASSIGN_OR_RETURN(const HeldToolchain named, FindNamed(daemon, what));
  std::vector<HeldToolchain> together = daemon.In(named.installation());
  for (const HeldToolchain& other : together) {
    const bool is_companion = other.toolchain().name() == kPtxas;
    if (NameOf(other) == NameOf(named) || (is_companion && named.toolchain().name() != kPtxas)) {
      continue;
    }
    return FailedPrecondition("{} is part of {}, which has {} as well: remove that", NameOf(named),
                              other.installation(), NameOf(other));
  }
  return together;
}

// The searched directory that an installation lies in.
absl::StatusOr<std::string> HolderOf(const DaemonSide& daemon, const std::string& installation) {
  const std::string parent = std::filesystem::path(Normal(installation)).parent_path().string();
  for (const std::string& place : daemon.directories()) {
    if (IsSame(place, parent)) return place;
  }
  return FailedPrecondition(
      "{} is one of the directories that the daemon searches, and nothing in one: have "
      "toolchain.directories name the others alone, or remove it by its own means",
      installation);
}

absl::StatusOr<std::string> RemoveByName(const ToolchainName& name) {
  KILN_ASSIGN_OR_RETURN(const std::string place, OwnPlace());
  const std::string installation = fmt::format("{}/{}-{}", place, name.name, name.version);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(installation, error))) {
    return NotFound("no daemon runs that could say where it is, and there is no {}", installation);
  }
  KILN_ASSIGN_OR_RETURN(const std::string aside, SetToolchainAside(place, installation));
  KILN_RETURN_IF_ERROR(DeleteToolchain(aside));
  return "removed " + installation;
}

absl::Status SayWhich(const DaemonSide& daemon, const std::string& name) {
  if (!daemon.IsThere()) return InvalidArgument("say which: {}==VERSION", name);
  std::vector<std::string> versions;
  for (const HeldToolchain& held : daemon.here().toolchains()) {
    if (held.toolchain().name() == name) versions.push_back(ToolchainLabel(held, daemon.here()));
  }
  if (!versions.empty()) return InvalidArgument("say which: {}", fmt::join(versions, ", "));
  return NotFound(
      "the daemon has no {}; 'kiln toolchain list' shows what it has (of a fingerprint, say {} "
      "digits "
      "at least)",
      name, kFingerprintDigitsShown);
}

absl::StatusOr<std::string> Remove(const std::string& what, DaemonSide& daemon) {
  if (const bool is_name = FingerprintDigits(what).empty(); is_name || !daemon.IsThere()) {
    KILN_ASSIGN_OR_RETURN(const ToolchainName name, ParseToolchainName(what));
    if (name.version.empty()) return SayWhich(daemon, name.name);
    if (!daemon.IsThere()) return RemoveByName(name);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<HeldToolchain> removed, FindRemoved(daemon, what));
  const std::string installation = removed.front().installation();
  KILN_ASSIGN_OR_RETURN(const std::string place, HolderOf(daemon, installation));
  // Out of sight first, and deleted when nobody uses it any more.
  KILN_ASSIGN_OR_RETURN(const std::string aside, SetToolchainAside(place, installation));
  const absl::Status reloaded = daemon.Reload();
  KILN_RETURN_IF_ERROR(DeleteToolchain(aside));
  KILN_RETURN_IF_ERROR(reloaded);
  std::vector<std::string> names;
  for (const HeldToolchain& each : removed) names.push_back(NameOf(each));
  return fmt::format("removed {}: {}", installation, fmt::join(names, ", "));
}

// Files are the caller's to mend, and so is what he may not do.
ExitCode Answer(Session& session, const DaemonSide& daemon, std::string_view command,
                const absl::StatusOr<std::string>& done) {
  if (done.ok()) return Tell(session, daemon, *done);
  if (absl::IsInvalidArgument(done.status())) {
    return CannotRun(session.console(), command, done.status());
  }
  return Fail(session.console(), command, done.status());
}

}  // namespace

ExitCode AddToolchain(const ToolchainAddition& wanted, Session& session) {
  DaemonSide daemon(session);
  if (const absl::Status connected = daemon.Connect(); !connected.ok()) {
    return FailToConnect(session.console(), connected);
  }
  return Answer(session, daemon, "toolchain add", Add(wanted, daemon));
}

ExitCode RemoveToolchain(const std::string& what, Session& session) {
  DaemonSide daemon(session);
  if (const absl::Status connected = daemon.Connect(); !connected.ok()) {
    return FailToConnect(session.console(), connected);
  }
  return Answer(session, daemon, "toolchain remove", Remove(what, daemon));
}

}  // namespace kiln::cli
