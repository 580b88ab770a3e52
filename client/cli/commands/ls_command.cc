#include <algorithm>
#include <functional>

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
#include "storage/base/users.h"

namespace kiln::cli {
namespace {

using Artifact = admin::v1::ArtifactSummary;

struct LsArguments {
  std::string prefix;
  std::string kernel;
  std::string target;
  std::string toolchain;
  std::string job;
  std::string user;
  std::string sort;
  uint64_t limit = 0;
};

// What each word of --sort puts first.
struct Order {
  std::string_view word;
  uint64_t (*value)(const Artifact&);  // of the largest first
};
constexpr Order kOrders[] = {
    {"size", [](const Artifact& one) { return one.size_bytes(); }},
    {"age", [](const Artifact& one) { return static_cast<uint64_t>(one.created_unix_ms()); }},
    {"use", [](const Artifact& one) { return static_cast<uint64_t>(one.last_use_unix_ms()); }},
    {"compile-time", [](const Artifact& one) { return one.compile_micros(); }},
};

absl::StatusOr<const Order*> ParseOrder(const std::string& word) {
  const auto found = std::ranges::find(kOrders, word, &Order::word);
  if (found != std::end(kOrders)) return found;
  return InvalidArgument("--sort {}: give size, age, use or compile-time", word);
}

absl::StatusOr<admin::v1::ListArtifactsRequest> RequestOf(const LsArguments& arguments) {
  admin::v1::ListArtifactsRequest request;
  const bool is_name = !IsKeyPrefix(arguments.prefix);
  if (is_name && !arguments.kernel.empty()) {
    return InvalidArgument("'{}' is no key, and --kernel names a kernel already", arguments.prefix);
  }
  if (!is_name) request.set_key_prefix(arguments.prefix);
  request.set_kernel(is_name ? arguments.prefix : arguments.kernel);
  request.set_target(arguments.target);
  request.set_toolchain(arguments.toolchain);
  request.set_job(arguments.job);
  if (!arguments.user.empty()) {
    KILN_ASSIGN_OR_RETURN(const uid_t uid, FindUser(arguments.user));
    request.set_uid(uid);
  }
  return request;
}

std::string NameInList(const Artifact& artifact) {
  if (!artifact.has_own_uid()) return artifact.name();
  if (artifact.own_uid() == kTuningsUid) return "(shared tuning)";
  return fmt::format("(own entry of uid {})", artifact.own_uid());
}

// A page at a time, so that a store of a million artifacts takes no memory here.
absl::Status ForEachArtifact(AdminClient& admin, admin::v1::ListArtifactsRequest request,
                             uint64_t limit, Session& session,
                             const std::function<void(const Artifact&)>& visit) {
  uint64_t left = limit == 0 ? UINT64_MAX : limit;
  while (left > 0) {
    request.set_limit(static_cast<uint32_t>(std::min<uint64_t>(left, limits::kListPageMax)));
    KILN_ASSIGN_OR_RETURN(const auto page,
                          admin.ListArtifacts(session.Call(kQuestionTime), request));
    for (const Artifact& artifact : page.artifacts()) visit(artifact);
    left -= std::min<uint64_t>(left, static_cast<uint64_t>(page.artifacts_size()));
    if (page.next().empty()) break;
    request.set_after(page.next());
  }
  return absl::OkStatus();
}

// Prints rows, and what they come to.
class Listing {
 public:
  explicit Listing(Session& session)
      : session_(session), console_(session.console()), table_(console_, Columns()) {}

  void Add(const Artifact& artifact) {
    ++(artifact.has_own_uid() ? own_count_ : artifact_count_);
    bytes_ += artifact.size_bytes();
    hits_ += artifact.hits();
    compile_micros_ += artifact.compile_micros();
    if (session_.json()) {
      console_.out << Dump(artifact) << '\n';
    } else {
      table_.AddRow(Row(artifact));
    }
  }

  bool is_empty() const { return artifact_count_ + own_count_ == 0; }

  void Flush() {
    table_.Flush();
    console_.out.flush();
  }

  void PrintTotals() {
    if (session_.json()) return;
    console_.err << fmt::format(
        "{}{}, {}, {}, {} to compile\n", FormatCount(artifact_count_, "artifact"),
        own_count_ == 0 ? "" : fmt::format(" and {} of own namespaces", own_count_),
        FormatBytes(bytes_), FormatCount(hits_, "hit"),
        FormatDuration(std::chrono::microseconds(static_cast<int64_t>(compile_micros_))));
  }

 private:
  bool IsNarrow() const { return IsNarrowTerminal(console_); }

  std::vector<Column> Columns() const {
    std::vector<Column> columns = {{"KEY"}, {"KERNEL", false, /*is_elastic=*/true}, {"TARGET"}};
    if (!IsNarrow()) columns.push_back({"TOOLCHAIN"});
    columns.insert(columns.end(), {{"SIZE", true}, {"USED", true}, {"HITS", true}});
    if (!IsNarrow()) columns.push_back({"PINNED"});
    columns.push_back({"OPTIONS", false, /*is_elastic=*/true});
    return columns;
  }

  // A person sees short keys, sizes and ages; pipes get whole keys, bytes and seconds.
  std::vector<Cell> Row(const Artifact& artifact) const {
    const bool is_aligned = console_.aligned;
    const std::string key = Hex(artifact.key());
    const uint64_t size = artifact.size_bytes();
    const int64_t last_use_ms = artifact.last_use_unix_ms();
    std::vector<Cell> row = {key.substr(0, KeyDigitsShown(console_)), NameInList(artifact),
                             artifact.has_own_uid() ? "" : TargetName(artifact.target())};
    if (!IsNarrow()) row.emplace_back(artifact.toolchain());
    row.emplace_back(is_aligned ? FormatBytes(size) : std::to_string(size));
    row.emplace_back(is_aligned ? FormatAge(last_use_ms, SystemClock().UnixMillis())
                                : std::to_string(last_use_ms / 1000));
    row.emplace_back(std::to_string(artifact.hits()));
    if (!IsNarrow()) row.emplace_back(artifact.pinned() ? "pinned" : "");
    row.emplace_back(artifact.options());
    return row;
  }

  Session& session_;
  Console& console_;
  Table table_;
  uint64_t artifact_count_ = 0;
  uint64_t own_count_ = 0;
  uint64_t bytes_ = 0;
  uint64_t hits_ = 0;
  uint64_t compile_micros_ = 0;
};

// Adds what `request` asks for: as it comes, or sorted.
absl::Status List(AdminClient& admin, const admin::v1::ListArtifactsRequest& request,
                  const Order* order, uint64_t limit, Session& session, Listing& listing) {
  std::vector<Artifact> all;  // where they are sorted
  const absl::Status status = ForEachArtifact(admin, request, order == nullptr ? limit : 0, session,
                                              [&](const Artifact& one) {
                                                if (order == nullptr) return listing.Add(one);
                                                all.push_back(one);
                                              });
  if (order != nullptr) std::ranges::stable_sort(all, std::greater(), order->value);
  if (limit > 0 && all.size() > limit) all.resize(limit);
  for (const Artifact& one : all) listing.Add(one);
  return status;
}

absl::StatusOr<ExitCode> RunLs(const LsArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(auto request, CannotRun(RequestOf(arguments)));
  const Order* order = nullptr;
  if (!arguments.sort.empty()) {
    KILN_ASSIGN_OR_RETURN(order, CannotRun(ParseOrder(arguments.sort)));
  }
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdminOrOwn(request.has_uid()));
  Listing listing(session);
  absl::Status status = List(*admin, request, order, arguments.limit, session, listing);
  // "add" may begin a key, and be a kernel's name.
  if (status.ok() && listing.is_empty() && request.kernel().empty()) {
    request.set_kernel(request.key_prefix());
    request.clear_key_prefix();
    if (!request.kernel().empty()) {
      status = List(*admin, request, order, arguments.limit, session, listing);
    }
  }
  listing.Flush();
  KILN_RETURN_IF_ERROR(status);
  listing.PrintTotals();
  return kOk;
}

}  // namespace

void AddLs(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand("ls", "List stored artifacts", RunLs);
  command.Add("PREFIX", arguments.prefix,
              "Only keys that begin with these hex digits, or kernels whose name has this text");
  command.Add("--kernel", arguments.kernel, "Only kernels whose name has this text");
  command.Add("--target", arguments.target, "Only for cuda:90, or all of cuda");
  command.Add("--toolchain", arguments.toolchain, "Only of triton==3.6.0, or all of triton");
  command.Add("--job", arguments.job, "Only what was compiled for this job");
  command.Add("--user", arguments.user, "Only what was compiled for this user (name or uid)");
  command.Add("--sort", arguments.sort,
              "size (largest first), age (newest), use (used last) or compile-time (longest); "
              "default: by key",
              {.value_name = "BY"});
  command.Add("--limit", arguments.limit, "At most this many (default: all)");
}

}  // namespace kiln::cli
