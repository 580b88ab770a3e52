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

// What a person sees. Pipes get whole keys, bytes and seconds.
class ArtifactTable {
 public:
  explicit ArtifactTable(Console& console)
      : is_aligned_(console.aligned),
        table_(console, {{"KEY"},
                         {"KERNEL"},
                         {"TARGET"},
                         {"TOOLCHAIN"},
                         {"SIZE", true},
                         {"LAST USE", true},
                         {"HITS", true},
                         {"PINNED"}}) {}

  void Add(const admin::v1::ArtifactSummary& artifact) {
    const std::string key = Hex(artifact.key());
    const int64_t now = SystemClock().UnixMillis();
    table_.AddRow(
        {is_aligned_ ? key.substr(0, 12) : key, NameInList(artifact),
         artifact.has_own_uid() ? "" : TargetName(artifact.target()), artifact.toolchain(),
         is_aligned_ ? FormatBytes(artifact.size_bytes()) : std::to_string(artifact.size_bytes()),
         is_aligned_ ? FormatAge(artifact.last_use_unix_ms(), now)
                     : std::to_string(artifact.last_use_unix_ms() / 1000),
         std::to_string(artifact.hits()), std::string(artifact.pinned() ? "pinned" : "")});
  }
  void Flush() { table_.Flush(); }

 private:
  const bool is_aligned_;
  Table table_;
};

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

ExitCode RunLs(const LsArguments& arguments, Session& session) {
  Console& console = session.console();
  if (const absl::Status status = CheckKey(arguments.prefix, 0); !status.ok()) {
    return CannotRun(console, "ls", status);
  }
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  ArtifactTable table(console);
  const absl::Status status =
      ForEachArtifact(**admin, arguments, session.Call(kQuestionTime), [&](const auto& artifact) {
        if (session.json()) {
          console.out << Dump(artifact) << '\n';
        } else {
          table.Add(artifact);
        }
      });
  table.Flush();
  console.out.flush();
  return status.ok() ? kOk : Fail(console, "ls", status);
}

}  // namespace

void AddLs(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("ls", "List stored artifacts in the order of their keys", RunLs);
  command.Add("PREFIX", arguments.prefix, "Only keys that begin with these hex digits");
  command.Add("--limit", arguments.limit, "At most this many (default: all)");
}

}  // namespace kiln::cli
