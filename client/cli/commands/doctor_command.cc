#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "client/rpc/metric_value.h"
#include "storage/base/digest.h"

namespace kiln::cli {
namespace {

struct Verdict {
  std::string_view word;
  Style style;
};

constexpr Verdict kGood{"ok", Style::kGood};
constexpr Verdict kWarning{"warning", Style::kNew};
constexpr Verdict kBad{"bad", Style::kBad};

// Prints what it finds as it goes.
class Examination {
 public:
  explicit Examination(Session& session) : session_(session) {}

  ExitCode Run() {
    const auto client = session_.Connect();
    if (client.ok()) {
      Add("daemon", kGood, "answers on " + (*client)->socket_path());
      CheckToolchains(**client);
      CheckHotDirectory(**client);
      CheckAdministration();
    } else {
      Add("daemon", kBad, Message(client.status()),
          AdviceOnConnecting(client.status(), session_.root()));
    }
    session_.console().out.flush();
    return code_;
  }

 private:
  // `advice` is "" where there is nothing to do.
  void Add(std::string_view check, const Verdict& verdict, std::string_view detail,
           std::string_view advice = "") {
    if (verdict.style == Style::kBad) code_ = kFailed;
    Console& console = session_.console();
    if (session_.json()) {
      console.out << Dump(Json{{"check", check},
                               {"verdict", verdict.word},
                               {"detail", detail},
                               {"advice", advice}})
                  << '\n';
      return;
    }
    console.out << console.Styled(fmt::format("{:<8}", verdict.word), verdict.style) << check
                << ": " << Printable(detail) << '\n';
    if (!advice.empty()) console.out << "          try: " << advice << '\n';
  }

  void CheckToolchains(Client& client) {
    const auto listed = client.ListToolchains(session_.Call(kQuestionTime));
    if (!listed.ok()) {
      return Add("toolchains", kBad, Summarize(listed.status()), "see the daemon's log");
    }
    if (listed->toolchains().empty()) {
      return Add("toolchains", kBad, "the daemon has no toolchain, so it cannot compile",
                 "kiln toolchain add triton==3.6.0, as root for the system's service");
    }
    if (!listed->toolchains(0).is_default()) {
      Add("toolchains", kBad, "the default toolchain is not here ('kiln toolchain list' names it)",
          "kiln toolchain add it, or choose one of those below with kiln toolchain default, or the "
          "newest with --newest, unless the daemon's toolchain.default is set; until then name one "
          "with --toolchain");
    }
    for (const v1::Toolchain& toolchain : listed->toolchains()) {
      Add("toolchain", kGood,
          fmt::format("{}=={} {} {}{}", toolchain.name(), toolchain.version(),
                      Hex(toolchain.fingerprint()).substr(0, 12), toolchain.assembler(),
                      toolchain.is_default() ? " (default)" : ""));
    }
  }

  void CheckHotDirectory(Client& client) {
    const std::string& path = client.hot_directory();
    if (::access(path.c_str(), R_OK | X_OK) != 0) {
      return Add("hot directory", kWarning, fmt::format("{}: {}", path, std::strerror(errno)),
                 "hits go through the socket meanwhile; the directory must be readable for you");
    }
    // No artifact has this key: whatever else comes back says what is wrong.
    const auto probe = client.FindHot(Digest().Bytes());
    if (probe.status().code() == absl::StatusCode::kPermissionDenied) {
      return Add("hot directory", kBad, Message(probe.status()),
                 "chmod go-w the directory, and see who wrote to it");
    }
    Add("hot directory", kGood, path);
  }

  void CheckAdministration() {
    const auto admin = session_.ConnectAdmin();
    const auto stats = admin.ok() ? (*admin)->GetStats(session_.Call(kQuestionTime))
                                  : absl::StatusOr<admin::v1::GetStatsResponse>(admin.status());
    if (!stats.ok()) {
      return Add("administration", kWarning, Message(stats.status()),
                 "run kiln doctor as the daemon's user or as root for the rest of the checks");
    }
    CheckVersion(*stats);
    CheckState(*stats);
    CheckRejected(**admin);
    if (!stats->jail().empty()) {  // a daemon of another version may not tell
      CheckJail(*stats);
      CheckBounds(*stats);
    }
    CheckDisk(*stats);
  }

  void CheckVersion(const admin::v1::GetStatsResponse& stats) {
    const bool is_same = stats.version() == KILN_VERSION;
    Add("version", is_same ? kGood : kWarning,
        fmt::format("command {}, daemon {}", KILN_VERSION, stats.version()),
        is_same ? "" : "install the same version of both; a restart picks up a new daemon");
  }

  void CheckState(const admin::v1::GetStatsResponse& stats) {
    const bool is_serving = stats.state() == "serving";
    Add("state", is_serving ? kGood : kBad,
        stats.state_reason().empty() ? stats.state()
                                     : fmt::format("{}: {}", stats.state(), stats.state_reason()),
        is_serving ? "" : "see the daemon's log (journalctl -u kilnd)");
    std::vector<std::string> names;
    for (const auto& toolchain : stats.toolchains()) names.push_back(toolchain.name());
    for (const auto& toolchain : stats.toolchains()) {
      if (!toolchain.state().starts_with("failed")) continue;
      Add("toolchain " + ToolchainLabel(toolchain.name(), toolchain.fingerprint(), names), kBad,
          toolchain.state(), "install it anew; kilnd's log has what its Python said");
    }
    if (const uint64_t changes = MetricValue(stats, "toolchains_changed"); changes > 0) {
      Add("toolchains", kWarning,
          fmt::format("changed on disk {} since the start, and were read again{}{}",
                      changes == 1 ? "once" : fmt::format("{} times", changes),
                      stats.toolchain_change().empty() ? "" : "; last of all ",
                      stats.toolchain_change()),
          "kiln toolchain list, and see who writes to them: a toolchain is installed once and left "
          "alone");
    }
    if (const uint64_t damaged = MetricValue(stats, "quarantined"); damaged > 0) {
      Add("integrity", kWarning, fmt::format("{} damaged artifacts were put aside", damaged),
          "kiln verify, and look at the disk's health");
    }
    if (const uint64_t wrong = MetricValue(stats, "audits_differed"); wrong > 0) {
      Add("integrity", kWarning,
          fmt::format("{} stored binaries were not what their sources compile to, and were evicted",
                      wrong),
          "the daemon's log names them; look at the machine's memory, and at what was done to the "
          "toolchains");
    }
  }

  // Names what lies in the toolchain directories and cannot be used.
  void CheckRejected(AdminClient& admin) {
    const auto here = admin.ListToolchains(session_.Call(kQuestionTime));
    if (!here.ok()) {
      return Add("toolchains", kWarning, Summarize(here.status()), "see the daemon's log");
    }
    for (const auto& rejected : here->rejected()) {
      Add("toolchain", kWarning,
          fmt::format("{} is not used: {}", rejected.path(), rejected.reason()),
          "mend or remove it, and then kiln toolchain reload");
    }
  }

  void CheckJail(const admin::v1::GetStatsResponse& stats) {
    if (stats.jail_problems().empty()) {
      return Add("jail", kGood, "compilers reach nothing but their own files");
    }
    const std::string problems = fmt::format("{}", fmt::join(stats.jail_problems(), "; "));
    if (stats.jail() == "off") {
      return Add("jail", kBad, problems,
                 "set workers.jail to \"on\": a hostile kernel source can do what the daemon can");
    }
    if (stats.jail() == "required") {
      return Add("jail", kBad, "nothing is compiled: " + problems,
                 "run a kernel with Landlock and seccomp, or set workers.require_jail to false");
    }
    Add("jail", kWarning, problems,
        "compile only what you trust here, or run a kernel with Landlock (5.13 or later, in lsm=) "
        "and seccomp");
  }

  void CheckBounds(const admin::v1::GetStatsResponse& stats) {
    if (stats.plain_limits().empty()) {
      return Add("bounds", kGood, "the kernel bounds the threads, memory and files of each worker");
    }
    Add("bounds", kGood,
        fmt::format("some limits hold for each process of a worker only: {}",
                    fmt::join(stats.plain_limits(), "; ")),
        "enough for a daemon that compiles for its own user; for a shared one, run kilnd.service, "
        "with control groups of version 2, and allow user namespaces");
  }

  void CheckDisk(const admin::v1::GetStatsResponse& stats) {
    const uint64_t free = MetricValue(stats, "free_disk_bytes");
    const bool is_low = free < MetricValue(stats, "free_disk_bytes_min");
    Add("disk", is_low ? kWarning : kGood,
        fmt::format("{} free; the store takes {} of {}", FormatBytes(free),
                    FormatBytes(MetricValue(stats, "store_bytes")),
                    FormatBytes(MetricValue(stats, "store_bytes_max"))),
        is_low ? "make room: below the floor, compiles go on but nothing is stored" : "");
  }

  Session& session_;
  ExitCode code_ = kOk;
};

ExitCode RunDoctor(Session& session) { return Examination(session).Run(); }

}  // namespace

void AddDoctor(CommandParser& parser) {
  parser.AddSubcommand("doctor", "Check the installation and say what to do about it", RunDoctor);
}

}  // namespace kiln::cli
