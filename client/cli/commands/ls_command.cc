#include <algorithm>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

struct LsArguments {
  std::string prefix;
  uint64_t limit = 0;
};

std::string NameInList(const admin::v1::ArtifactSummary& artifact) {
  if (!artifact.has_own_uid()) return artifact.name();
  return fmt::format("(own entry of uid {})", artifact.own_uid());
}

// A person sees short keys, sizes and ages; pipes get whole keys, bytes and seconds.
std::vector<Cell> RowOf(const admin::v1::ArtifactSummary& artifact, bool is_aligned) {
  const std::string key = Hex(artifact.key());
  const uint64_t size = artifact.size_bytes();
  const int64_t last_use_ms = artifact.last_use_unix_ms();
  return {is_aligned ? key.substr(0, 12) : key,
          NameInList(artifact),
          artifact.has_own_uid() ? "" : TargetName(artifact.target()),
          artifact.toolchain(),
          is_aligned ? FormatBytes(size) : std::to_string(size),
          is_aligned ? FormatAge(last_use_ms, SystemClock().UnixMillis())
                     : std::to_string(last_use_ms / 1000),
          std::to_string(artifact.hits()),
          std::string(artifact.pinned() ? "pinned" : "")};
}

// A page at a time, so that a store of a million artifacts takes no memory here.
template <typename Visit>
absl::Status ForEachArtifact(AdminClient& admin, const LsArguments& arguments,
                             const CallOptions& call, const Visit& visit) {
  admin::v1::ListArtifactsRequest request;
  request.set_key_prefix(arguments.prefix);
  uint64_t left = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
  while (left > 0) {
    request.set_limit(static_cast<uint32_t>(std::min<uint64_t>(left, limits::kListPageMax)));
    KILN_ASSIGN_OR_RETURN(const auto page, admin.ListArtifacts(call, request));
    for (const auto& artifact : page.artifacts()) visit(artifact);
    left -= std::min<uint64_t>(left, static_cast<uint64_t>(page.artifacts_size()));
    if (page.next().empty()) break;
    request.set_after(page.next());
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunLs(const LsArguments& arguments, Session& session) {
  Console& console = session.console();
  KILN_RETURN_IF_ERROR(CannotRun(CheckKey(arguments.prefix, 0)));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  Table table(console, {{"KEY"},
                        {"KERNEL"},
                        {"TARGET"},
                        {"TOOLCHAIN"},
                        {"SIZE", true},
                        {"LAST USE", true},
                        {"HITS", true},
                        {"PINNED"}});
  const absl::Status status =
      ForEachArtifact(*admin, arguments, session.Call(kQuestionTime), [&](const auto& artifact) {
        if (session.json()) {
          console.out << Dump(artifact) << '\n';
        } else {
          table.AddRow(RowOf(artifact, console.aligned));
        }
      });
  table.Flush();
  console.out.flush();
  KILN_RETURN_IF_ERROR(status);
  return kOk;
}

}  // namespace

void AddLs(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("ls", "List stored artifacts in the order of their keys", RunLs);
  command.Add("PREFIX", arguments.prefix, "Only keys that begin with these hex digits");
  command.Add("--limit", arguments.limit, "At most this many (default: all)");
}

}  // namespace kiln::cli
