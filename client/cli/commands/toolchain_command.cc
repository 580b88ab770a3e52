#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/toolchain_place.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"
#include "client/rpc/admin_client.h"
#include "storage/base/release.h"

namespace kiln::cli {
namespace {

struct ToolchainArguments {
  std::string action;
  std::string what;
  std::string path;
  std::string into;
  bool newest = false;
};

// "/x/y" for "/x//y/" and, in /x, for "y".
std::string Absolute(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error) / "";
  return absolute.lexically_normal().parent_path().string();
}

absl::Status CheckAddition(const ToolchainArguments& given) {
  KILN_ASSIGN_OR_RETURN(const ToolchainName name, ParseToolchainName(given.what));
  const bool can_be_installed = IsInstallable(name.name);
  if (!can_be_installed && name.name != "ptxas" && name.name != "clang") {
    return InvalidArgument(
        "unknown toolchain '{}'; use triton, nvrtc (CUDA C++), ptxas or clang (OpenCL C)",
        name.name);
  }
  if (!given.path.empty()) return absl::OkStatus();
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
  if (has_what == takes_what && !(given.newest && !given.what.empty())) {
    return is_add ? CheckAddition(given) : absl::OkStatus();
  }
  if (!takes_what)
    return InvalidArgument("{} takes nothing; '{}' is too much", given.action, given.what);
  return InvalidArgument("say which toolchain: NAME==VERSION{}", is_default ? ", or --newest" : "");
}

// The directory to add: one that is there, or a new installation.
absl::StatusOr<std::string> PathOf(const ToolchainArguments& given, const ToolchainName& name,
                                   AdminClient& admin, Session& session) {
  if (!given.path.empty()) return Absolute(given.path);
  KILN_ASSIGN_OR_RETURN(const auto here, admin.ListToolchains(session.Call(kQuestionTime)));
  KILN_ASSIGN_OR_RETURN(const std::string place, PlaceFor(given.into, {here.directories().begin(),
                                                                       here.directories().end()}));
  return InstallToolchain(place, name);
}

std::string SelectorOf(const admin::v1::HeldToolchain& held) {
  return fmt::format("{}=={}", held.toolchain().name(), held.toolchain().version());
}

// What compiles the first of the added toolchain's kinds of source where a request names none, and
// why.
std::string WhatIsUsed(const admin::v1::ListToolchainsResponse& here,
                       const admin::v1::AddToolchainResponse& added) {
  const auto& list = here.toolchains();
  const auto held = std::find_if(list.begin(), list.end(), [&](const auto& each) {
    return each.toolchain().fingerprint() == added.fingerprint();
  });
  if (held == list.end() || held->toolchain().kinds().empty()) return "";
  const int kind = held->toolchain().kinds(0);
  const auto used = std::find_if(list.begin(), list.end(), [&](const auto& each) {
    const auto& kinds = each.default_kinds();
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  });
  if (used == list.end()) return "";
  const std::string word = WordOf(static_cast<v1::SourceKind>(kind));
  if (used == held) return fmt::format("; it compiles {} where no --toolchain is named", word);
  return fmt::format(
      "; where no --toolchain is named, {} compiles {}, {}: 'kiln toolchain default {}' chooses "
      "this one instead",
      SelectorOf(*used), word,
      used->toolchain().is_default() && !here.default_selector().empty() ? "the chosen default"
                                                                         : "the newest",
      added.name());
}

absl::StatusOr<std::string> Add(const ToolchainArguments& given, AdminClient& admin,
                                Session& session) {
  KILN_ASSIGN_OR_RETURN(const ToolchainName name, ParseToolchainName(given.what));
  admin::v1::AddToolchainRequest request;
  KILN_ASSIGN_OR_RETURN(*request.mutable_path(), PathOf(given, name, admin, session));
  request.set_name(name.name);
  request.set_version(name.version);
  KILN_ASSIGN_OR_RETURN(const auto added, admin.AddToolchain(session.Call(), request));
  KILN_ASSIGN_OR_RETURN(const auto here, admin.ListToolchains(session.Call(kQuestionTime)));
  const std::string used = WhatIsUsed(here, added);
  if (added.is_new()) return "added " + added.installation() + used;
  return fmt::format("{} is already there: {}, fingerprint {}{}", added.installation(),
                     added.name(), Hex(added.fingerprint()), used);
}

// Does what was asked for. Returns what to tell the caller, besides the toolchains that there are.
absl::StatusOr<std::string> Act(const ToolchainArguments& given, AdminClient& admin,
                                Session& session) {
  if (given.action == "add") return Add(given, admin, session);
  if (given.action == "remove") {
    admin::v1::RemoveToolchainRequest request;
    request.set_selector(given.what);
    KILN_ASSIGN_OR_RETURN(const auto removed, admin.RemoveToolchain(session.Call(), request));
    return fmt::format("removed {}: {}", removed.installation(), fmt::join(removed.names(), ", "));
  }
  if (given.action == "reload") {
    KILN_RETURN_IF_ERROR(admin.ReloadToolchains(session.Call()).status());
  }
  if (given.action == "default") {
    admin::v1::SetDefaultToolchainRequest request;
    request.set_selector(given.what);
    KILN_RETURN_IF_ERROR(admin.SetDefaultToolchain(session.Call(kQuestionTime), request).status());
  }
  return "";
}

using SourceKinds = google::protobuf::RepeatedField<int>;
std::vector<std::string> WordsOf(const SourceKinds& kinds) {
  std::vector<std::string> words;
  for (const int kind : kinds) words.push_back(WordOf(static_cast<v1::SourceKind>(kind)));
  return words;
}

// "cuda:80", …
std::vector<std::string> TargetsOf(const v1::Toolchain& toolchain) {
  std::vector<std::string> targets;
  for (const v1::Backend& backend : toolchain.backends()) {
    for (const std::string& architecture : backend.architectures()) {
      targets.push_back(fmt::format("{}:{}", backend.backend(), architecture));
    }
  }
  return targets;
}

// "cuda 80 90 100, hip gfx942"; on a terminal "3 cuda, 1 hip", which fits its line.
std::string TargetsInShort(const Console& console, const v1::Toolchain& toolchain) {
  std::vector<std::string> backends;
  for (const v1::Backend& backend : toolchain.backends()) {
    backends.push_back(
        console.aligned
            ? fmt::format("{} {}", backend.architectures_size(), backend.backend())
            : fmt::format("{} {}", backend.backend(), fmt::join(backend.architectures(), " ")));
  }
  return fmt::format("{}", fmt::join(backends, ", "));
}

void PrintObjects(Console& console, const admin::v1::ListToolchainsResponse& here) {
  for (const auto& held : here.toolchains()) {
    const v1::Toolchain& toolchain = held.toolchain();
    console.out << Dump(Json{{"name", toolchain.name()},
                             {"version", toolchain.version()},
                             {"fingerprint", Hex(toolchain.fingerprint())},
                             {"default", toolchain.is_default()},
                             {"default_kinds", WordsOf(held.default_kinds())},
                             {"state", held.state()},
                             {"kinds", WordsOf(toolchain.kinds())},
                             {"targets", TargetsOf(toolchain)},
                             {"assembler", toolchain.assembler()},
                             {"path", held.path()},
                             {"installation", held.installation()},
                             {"remarks", std::vector<std::string>(held.remarks().begin(),
                                                                  held.remarks().end())}})
                << '\n';
  }
  for (const auto& rejected : here.rejected()) {
    console.out << Dump(Json{{"rejected", rejected.path()},
                             {"installation", rejected.installation()},
                             {"reason", rejected.reason()}})
                << '\n';
  }
}

// What it compiles where no toolchain is named, and why: "default (newest)", "default of ptx".
std::string DefaultMark(const admin::v1::ListToolchainsResponse& here,
                        const admin::v1::HeldToolchain& held) {
  const v1::Toolchain& toolchain = held.toolchain();
  if (held.default_kinds().empty()) return "";
  const bool has_all = held.default_kinds_size() == toolchain.kinds_size();
  const bool is_chosen = toolchain.is_default() && !here.default_selector().empty();
  const std::string_view why = !is_chosen                     ? " (newest)"
                               : here.is_default_configured() ? " (configured)"
                                                              : "";
  return fmt::format(
      "default{}{}{}", has_all ? "" : " of ",
      has_all ? "" : fmt::format("{}", fmt::join(WordsOf(held.default_kinds()), " ")), why);
}

// Who is no operator is told no path.
void PrintTable(Console& console, const admin::v1::ListToolchainsResponse& here, bool has_paths) {
  std::vector<Column> columns = {{"TOOLCHAIN"}, {"FINGERPRINT"}, {"KINDS"}, {"STATE"}, {"DEFAULT"}};
  if (has_paths) columns.push_back({"PATH"});
  columns.push_back({"TARGETS"});
  Table table(console, columns);
  for (const auto& held : here.toolchains()) {
    const v1::Toolchain& toolchain = held.toolchain();
    const std::string fingerprint = Hex(toolchain.fingerprint());
    std::vector<Cell> row = {
        SelectorOf(held),
        console.aligned ? fingerprint.substr(0, kFingerprintDigitsShown) : fingerprint,
        fmt::format("{}", fmt::join(WordsOf(toolchain.kinds()), " ")), held.state(),
        DefaultMark(here, held)};
    if (has_paths) row.emplace_back(held.path());
    row.emplace_back(TargetsInShort(console, toolchain));
    table.AddRow(std::move(row));
  }
  table.Flush();
}

// A row for each; of those that are not used their reason. With --json an object a line.
void PrintToolchains(Session& session, const admin::v1::ListToolchainsResponse& here,
                     bool has_paths) {
  Console& console = session.console();
  if (session.json()) return PrintObjects(console, here);
  PrintTable(console, here, has_paths);
  std::vector<std::string> names;
  for (const auto& held : here.toolchains()) names.push_back(SelectorOf(held));
  for (const auto& held : here.toolchains()) {
    const std::string label =
        ToolchainLabel(SelectorOf(held), held.toolchain().fingerprint(), names);
    for (const std::string& remark : held.remarks()) {
      console.err << fmt::format("{}: {}\n", label, Printable(remark));
    }
  }
  for (const auto& rejected : here.rejected()) {
    console.err << fmt::format("not used: {}: {}\n", Printable(rejected.path()),
                               Printable(rejected.reason()));
  }
  if (here.toolchains().empty()) {
    console.err
        << "no toolchain is here: 'kiln toolchain add triton==3.6.0' installs one for Triton "
           "IR, 'kiln toolchain add nvrtc==12.9.86' one for CUDA C++\n";
  }
  const bool lacks_default =
      !here.default_selector().empty() &&
      (here.toolchains().empty() || !here.toolchains(0).toolchain().is_default());
  if (lacks_default) {
    console.err << fmt::format(
        "the default, {}, is not here, and requests for which it was chosen and that name none "
        "fail: {}\n",
        Printable(here.default_selector()),
        here.is_default_configured() ? "toolchain.default says so"
                                     : "'kiln toolchain default --newest' takes the choice back");
  }
}

absl::StatusOr<ExitCode> RunToolchain(const ToolchainArguments& given, Session& session) {
  KILN_RETURN_IF_ERROR(CannotRun(CheckUsage(given)));
  const bool is_list = given.action == "list";
  KILN_ASSIGN_OR_RETURN(const auto admin, is_list ? session.ConnectAdminOrOwn(/*names_user=*/true)
                                                  : session.ConnectAdmin());
  KILN_ASSIGN_OR_RETURN(const std::string said,
                        About("toolchain " + given.action, Act(given, *admin, session)));
  if (!said.empty()) session.console().err << Printable(said) << '\n';
  KILN_ASSIGN_OR_RETURN(const auto here, admin->ListToolchains(session.Call(kQuestionTime)));
  PrintToolchains(session, here, !admin->is_own());
  return kOk;
}

}  // namespace

void AddToolchainCommand(CommandParser& parser) {
  auto [command, given] = parser.AddSubcommand(
      "toolchain", "List, add, remove toolchains, choose the default: without a restart",
      RunToolchain);
  command.Add("ACTION", given.action, "list, add, remove, default, or reload: look around again",
              {.is_required = true});
  command.Add("NAME", given.what,
              "NAME==VERSION, as triton==3.7.1 or nvrtc==12.9.86; remove and default take a "
              "fingerprint too");
  command.Add("--path", given.path,
              "add: use what is installed in this directory, in place (NAME alone will do)",
              {.value_name = "DIR", .is_path = true});
  command.Add("--into", given.into,
              "add: install it into this directory, not into the first that the daemon searches",
              {.value_name = "DIR", .is_path = true});
  command.AddFlag("--newest", given.newest, "default: take a choice back");
}

}  // namespace kiln::cli
