#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/commands/request_source.h"
#include "client/cli/commands/stored_requests.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/first_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/cli/requests/bundle_writer.h"
#include "client/cli/requests/manifest_origin.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/retargeted.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

struct ExportArguments {
  std::vector<std::string> files;
  std::string job;
  bool all = false;
  std::vector<std::string> targets;
  std::string output;
  std::string key;
};

struct Chosen {
  std::vector<std::string> keys;
  uint64_t missing = 0;
  FirstNames missing_names;  // kernels that are not stored, and why
  RetargetedKernels retargeted;

  void AddMissing(std::string name) { missing_names.Add(missing++, std::move(name)); }
};

// Asks for each request of the manifests, and has nothing compiled.
absl::StatusOr<Chosen> Named(const ExportArguments& arguments, Session& session) {
  RequestFlags flags;
  flags.targets = arguments.targets;
  KILN_ASSIGN_OR_RETURN(const RequestTemplate shape, CannotRun(RequestTemplate::Of(flags)));
  KILN_ASSIGN_OR_RETURN(NamedRequestSource source,
                        CannotRun(OpenRequests(arguments.files, shape, Shard())));
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  Mutex mutex;
  std::map<uint64_t, std::string> names;  // of requests that have no answer yet
  uint64_t sent = 0;
  std::set<std::string> keys;
  Chosen chosen;
  const auto next = [&](v1::CompileRequest& request) {
    while (auto named = source()) {
      std::string name =
          fmt::format("{} for {}", named->name,
                      named->request.ok() ? TargetName(named->request->target()) : "");
      const MutexLock lock(mutex);
      if (!named->request.ok()) {
        chosen.AddMissing(fmt::format("{}: {}", named->name, Summarize(named->request.status())));
        continue;
      }
      chosen.retargeted.Add(IrOf(*named), named->name);
      request = *std::move(named->request);
      request.set_cache_policy(v1::CACHE_POLICY_ONLY_IF_CACHED);
      request.set_priority(v1::PRIORITY_BACKGROUND);
      names[sent++] = std::move(name);
      return true;
    }
    return false;
  };
  const auto answered = [&](uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
    const MutexLock lock(mutex);
    if (answer.ok()) {
      keys.insert(answer->key());
    } else {
      std::string& name = names.at(index);
      if (!absl::IsNotFound(answer.status())) name += ": " + Summarize(answer.status());
      chosen.AddMissing(std::move(name));
    }
    names.erase(index);
  };
  ManyOptions options{.call = session.Call()};
  options.call.fetch_content = false;
  KILN_RETURN_IF_ERROR(client->CompileMany(next, answered, options));
  chosen.keys.assign(keys.begin(), keys.end());
  return chosen;
}

using ExportRequest = admin::v1::ExportArtifactsRequest;

// What is still to be asked for, in parts that calls under way at once take.
struct Wanted {
  std::vector<std::string> keys;
  std::vector<ExportRequest> ranges;  // of all keys

  // Removes and returns the next request. REQUIRES: something is left.
  ExportRequest Take() {
    if (keys.empty()) {
      ExportRequest range = std::move(ranges.back());
      ranges.pop_back();
      return range;
    }
    ExportRequest named;
    for (size_t i = 0; i < limits::kBundleKeysMax && !keys.empty(); ++i) {
      named.add_keys(std::move(keys.back()));
      keys.pop_back();
    }
    return named;
  }
  // Adds what the answer leaves of the request. INTERNAL: it leaves as much as there was.
  absl::Status PutBack(ExportRequest request, const admin::v1::ExportArtifactsResponse& answer) {
    const bool is_stuck = request.keys().empty()
                              ? !answer.next().empty() && answer.next() <= request.after()
                              : answer.unanswered_keys_size() >= request.keys_size();
    if (is_stuck) return Internal("the daemon's answer brings nothing");
    keys.insert(keys.end(), answer.unanswered_keys().begin(), answer.unanswered_keys().end());
    if (answer.next().empty()) return absl::OkStatus();
    request.set_after(answer.next());
    ranges.push_back(std::move(request));
    return absl::OkStatus();
  }
};

// The daemon makes two blocks at once, and has the next request while the last block is written.
constexpr size_t kCallsMax = 3;

Wanted AllOf(const ExportArguments& arguments) {
  Wanted wanted;
  std::string after;
  for (size_t i = 1; i <= kCallsMax; ++i) {
    ExportRequest range;
    range.set_job(arguments.job);
    for (const std::string& target : arguments.targets) range.add_targets(target);
    range.set_after(after);
    after.assign(Digest::kSizeBytes, '\xff');
    after.front() = static_cast<char>(256 * i / kCallsMax - 1);
    range.set_last(after);
    wanted.ranges.push_back(std::move(range));
  }
  return wanted;
}

// What became of the artifacts.
struct Counts {
  uint64_t gone = 0;  // evicted meanwhile, or damaged
  FirstNames gone_keys;
  uint64_t too_large = 0;
  FirstNames too_large_keys;
  uint64_t own_entries = 0;  // keys and tunings, of --job and --all
};

// Writes what is wanted, in no order.
class Exporter {
 public:
  Exporter(AdminClient& admin, Wanted wanted, BundleWriter& writer, Session& session)
      : admin_(admin), writer_(writer), session_(session), wanted_(std::move(wanted)) {
    if (!wanted_.keys.empty()) total_ = wanted_.keys.size();
  }

  absl::StatusOr<Counts> Run() {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kCallsMax; ++i) threads.emplace_back([this] { AskOn(); });
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    KILN_RETURN_IF_ERROR(status_);
    return counts_;
  }

 private:
  // Until nothing is left for this thread.
  void AskOn() {
    MutexLock lock(mutex_);
    while (status_.ok() && !(wanted_.keys.empty() && wanted_.ranges.empty())) {
      ExportRequest request = wanted_.Take();
      lock.Unlock();
      const auto answer = admin_.ExportArtifacts(session_.Call(), request);
      lock.Lock();
      status_.Update(answer.ok() ? Write(std::move(request), *answer) : answer.status());
    }
  }

  absl::Status Write(ExportRequest request, const admin::v1::ExportArtifactsResponse& answer)
      KILN_REQUIRES(mutex_) {
    for (const std::string& key : answer.missing_keys()) {
      counts_.gone_keys.Add(counts_.gone++, Hex(key));
    }
    for (const std::string& key : answer.too_large_keys()) {
      counts_.too_large_keys.Add(counts_.too_large++, Hex(key));
    }
    if (!answer.frame().empty()) {
      KILN_RETURN_IF_ERROR(CannotRun(writer_.Add(answer.frame(), answer.artifacts())));
    }
    progress_.Update(writer_.artifacts(), {.text = FormatBytes(writer_.bytes())});
    return wanted_.PutBack(std::move(request), answer);
  }

  AdminClient& admin_;
  BundleWriter& writer_;
  Session& session_;
  std::optional<uint64_t> total_;
  Mutex mutex_;
  absl::Status status_ KILN_GUARDED_BY(mutex_);
  Wanted wanted_ KILN_GUARDED_BY(mutex_);
  Counts counts_ KILN_GUARDED_BY(mutex_);
  Progress progress_ KILN_GUARDED_BY(mutex_){session_.console(), SystemClock(), total_,
                                             ProgressLines::kText};
};

ExitCode Report(const ExportArguments& arguments, const Chosen& chosen, const Counts& counts,
                const BundleWriter& writer, Session& session) {
  Console& console = session.console();
  const uint64_t missing = chosen.missing + counts.gone;
  if (session.json()) {
    console.out << Dump(Json{{"artifacts", writer.artifacts()},
                             {"bytes", writer.bytes()},
                             {"signed", !arguments.key.empty()},
                             {"keys", counts.own_entries},
                             {"missing", missing},
                             {"ir_differs", chosen.retargeted.differing()},
                             {"ir_may_differ", chosen.retargeted.unsure()},
                             {"too_large", counts.too_large}})
                << std::endl;
  } else {
    console.err << fmt::format("{} in {}, {}\n", FormatCount(writer.artifacts(), "artifact"),
                               arguments.output, FormatBytes(writer.bytes()));
    if (arguments.files.empty() && arguments.targets.empty()) {
      console.err << fmt::format("  {} of uid {}\n",
                                 FormatCount(counts.own_entries, "recorded key"), ::geteuid());
      if (counts.own_entries == 0 && !arguments.job.empty()) {
        console.err << kOtherUsersKeys;
      }
    }
  }
  chosen.missing_names.Print(console.err, "not stored", chosen.missing);
  counts.gone_keys.Print(console.err, "evicted meanwhile, or damaged", counts.gone);
  counts.too_large_keys.Print(console.err, "left out, larger than a bundle takes",
                              counts.too_large);
  chosen.retargeted.Tell(console);
  if (arguments.key.empty()) {
    console.err << "  not signed, so no kilnd imports it\n  try: --sign-with KEY.pem\n";
  }
  const bool is_whole = missing + counts.too_large == 0 && writer.artifacts() > 0;
  return is_whole ? kOk : kFailed;
}

// For --job: a manifest of the job. For --all: keys and tunings alone, since all requests are too
// many. Returns how many keys and tunings it has.
absl::StatusOr<uint64_t> AddStoredManifest(const ExportArguments& arguments, AdminClient& admin,
                                           BundleWriter& writer, Session& session) {
  if (!arguments.targets.empty()) return 0;  // it would name other targets, too
  // Another name than the bundle's: some file systems give unfinished files names.
  KILN_ASSIGN_OR_RETURN(const auto manifest,
                        ManifestWriter::Create(arguments.output + ".manifest"));
  admin::v1::ListRequestsRequest wanted;
  wanted.set_job(arguments.job);
  wanted.set_only_own_entries(arguments.all);
  v1::ManifestOrigin origin;
  origin.set_job(arguments.job);
  KILN_RETURN_IF_ERROR(AddStoredRequests(admin, wanted, session, *manifest, origin));
  if (manifest->IsEmpty()) return 0;
  AddWriter(origin);
  AddDevices(origin);
  KILN_ASSIGN_OR_RETURN(const std::string path, manifest->FinishUnnamed(origin));
  KILN_RETURN_IF_ERROR(writer.AddManifest(path));
  return manifest->own_entries();
}

// The manifest has keys that decide what jobs are given, and whoever imports it passes them on as
// trusted.
absl::Status AddManifest(const ExportArguments& arguments, BundleWriter& writer, Session& session) {
  if (!arguments.targets.empty()) {
    session.console().err << "  without the manifest, which names other targets\n";
    return absl::OkStatus();
  }
  const std::string& path = arguments.files.front();
  const bool is_one_file = arguments.files.size() == 1 && path != "-";
  const auto trusted = is_one_file ? TrustedFile::Open(path) : std::nullopt;
  if (trusted) return writer.AddManifest(trusted->path());
  session.console().err
      << (is_one_file
              ? fmt::format("  without the manifest: others than you and root may have written {}\n"
                            "  try: copy it, if you trust its keys\n",
                            Printable(path))
              : "  without a manifest: a bundle takes one file\n  try: kiln manifest merge\n");
  return absl::OkStatus();
}

absl::Status CheckArguments(const ExportArguments& arguments) {
  const int ways =
      (arguments.files.empty() ? 0 : 1) + (arguments.job.empty() ? 0 : 1) + (arguments.all ? 1 : 0);
  if (ways != 1) return InvalidArgument("name one of: manifests, --job NAME, --all");
  if (arguments.output.empty()) return InvalidArgument("name the bundle, as -o kernels.bundle");
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunExport(const ExportArguments& arguments, Session& session) {
  KILN_RETURN_IF_ERROR(CannotRun(CheckArguments(arguments)));
  RequestFlags flags;
  flags.targets = arguments.targets;
  KILN_RETURN_IF_ERROR(CannotRun(RequestTemplate::Of(flags).status()));
  std::optional<SigningKey> key;
  if (!arguments.key.empty()) {
    KILN_ASSIGN_OR_RETURN(key, CannotRun(SigningKey::Read(arguments.key)));
  }
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  Chosen chosen;
  if (!arguments.files.empty()) {
    KILN_ASSIGN_OR_RETURN(chosen, Named(arguments, session));
  }
  KILN_ASSIGN_OR_RETURN(const auto writer,
                        CannotRun(BundleWriter::Create(arguments.output, std::move(key))));
  Wanted wanted = arguments.files.empty() ? AllOf(arguments) : Wanted{std::move(chosen.keys), {}};
  KILN_ASSIGN_OR_RETURN(Counts counts, Exporter(*admin, std::move(wanted), *writer, session).Run());
  if (writer->artifacts() == 0) session.TellOtherVersion(*admin);
  if (writer->artifacts() == 0 && arguments.files.empty()) {
    session.console().err << "kiln export: the daemon has nothing of it, so nothing is written\n"
                             "  try: kiln stats --jobs lists the jobs\n";
    return kFailed;
  }
  if (arguments.files.empty()) {
    KILN_ASSIGN_OR_RETURN(counts.own_entries,
                          CannotRun(AddStoredManifest(arguments, *admin, *writer, session)));
  } else {
    KILN_RETURN_IF_ERROR(CannotRun(AddManifest(arguments, *writer, session)));
  }
  KILN_RETURN_IF_ERROR(CannotRun(writer->Finish()));
  return Report(arguments, chosen, counts, *writer, session);
}

}  // namespace

void AddExport(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "export", "Write stored artifacts into a bundle for other daemons", RunExport);
  command.Add("MANIFEST", arguments.files, "What these manifests name", {.is_path = true});
  command.Add("--job", arguments.job, "What this job had compiled or asked for");
  command.AddFlag("--all", arguments.all, "Everything");
  command.Add("--target", arguments.targets,
              "Only of this target; of a manifest, for this target instead of its own",
              {.value_name = "TARGET"});
  command.Add("-o,--output", arguments.output, "The bundle",
              {.value_name = "FILE", .is_path = true});
  command.Add("--sign-with", arguments.key,
              "Sign with this Ed25519 private key, in PEM form: other daemons take no other bundle",
              {.value_name = "KEY.pem", .is_path = true});
}

}  // namespace kiln::cli
