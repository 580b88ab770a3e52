#include "client/cli/commands/toolchain_list.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"

namespace kiln::cli {
namespace {

std::vector<std::string> KindsOf(const v1::Toolchain& toolchain) {
  std::vector<std::string> kinds;
  for (const int kind : toolchain.kinds()) {
    kinds.push_back(WordOf(static_cast<v1::SourceKind>(kind)));
  }
  return kinds;
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

std::string SelectorOf(const admin::v1::HeldToolchain& held) {
  return fmt::format("{}=={}", held.toolchain().name(), held.toolchain().version());
}

void PrintObjects(Console& console, const admin::v1::ListToolchainsResponse& here) {
  for (const auto& held : here.toolchains()) {
    const v1::Toolchain& toolchain = held.toolchain();
    console.out << Dump(Json{{"name", toolchain.name()},
                             {"version", toolchain.version()},
                             {"fingerprint", Hex(toolchain.fingerprint())},
                             {"default", toolchain.is_default()},
                             {"state", held.state()},
                             {"kinds", KindsOf(toolchain)},
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

std::string DefaultMark(const admin::v1::ListToolchainsResponse& here,
                        const v1::Toolchain& toolchain) {
  if (!toolchain.is_default()) return "";
  if (here.is_default_configured()) return "default (configured)";
  return here.default_selector().empty() ? "default (newest)" : "default";
}

void PrintTable(Console& console, const admin::v1::ListToolchainsResponse& here) {
  Table table(
      console,
      {{"TOOLCHAIN"}, {"FINGERPRINT"}, {"KINDS"}, {"STATE"}, {"DEFAULT"}, {"PATH"}, {"TARGETS"}});
  for (const auto& held : here.toolchains()) {
    const v1::Toolchain& toolchain = held.toolchain();
    const std::string fingerprint = Hex(toolchain.fingerprint());
    table.AddRow({SelectorOf(held),
                  console.aligned ? fingerprint.substr(0, kFingerprintDigitsShown) : fingerprint,
                  fmt::format("{}", fmt::join(KindsOf(toolchain), " ")), held.state(),
                  DefaultMark(here, toolchain), held.path(), TargetsInShort(console, toolchain)});
  }
  table.Flush();
}

}  // namespace

void PrintToolchains(Session& session, const admin::v1::ListToolchainsResponse& here) {
  Console& console = session.console();
  if (session.json()) return PrintObjects(console, here);
  PrintTable(console, here);
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

}  // namespace kiln::cli
