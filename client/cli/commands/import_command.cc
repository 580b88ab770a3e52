#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/unfinished_file.h"
#include "client/cli/requests/bundle_reader.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

using admin::v1::ImportedArtifact;

struct ImportArguments {
  std::string file;
  std::string manifest;
};

constexpr size_t kNamesMax = 10;
constexpr int kImportCallsMax = 3;
// Answers that wait for the one of an earlier block.
constexpr size_t kAheadMax = 8;

// Artifacts that are not stored for one reason.
struct LeftOut {
  uint64_t count = 0;
  std::vector<std::string> names;  // of the first
  std::string why;                 // of the first, as the daemon says it

  void Add(const ImportedArtifact& one) {
    if (count++ == 0) why = Printable(one.why());
    if (names.size() == kNamesMax) return;
    names.push_back(fmt::format("{} for {}", Printable(one.name()), TargetName(one.target())));
  }
};

// What became of the artifacts.
struct Imported {
  uint64_t stored = 0;
  uint64_t there = 0;
  uint64_t damaged = 0;
  uint64_t not_leased = 0;                      // of those that are in the store now
  std::map<std::string, uint64_t> targets;      // of those that are in the store now
  std::map<std::string, LeftOut> no_toolchain;  // by toolchain
  LeftOut no_room;
  std::optional<uint64_t> end;  // how many there should be

  uint64_t left_out() const {
    uint64_t count = damaged + no_room.count;
    for (const auto& [toolchain, of_it] : no_toolchain) count += of_it.count;
    return count;
  }
  uint64_t all() const { return stored + there + left_out(); }

  void Count(const ImportedArtifact& one, Console& console) {
    switch (one.result()) {
      case ImportedArtifact::STORED:
        ++stored;
        break;
      case ImportedArtifact::THERE_ALREADY:
        ++there;
        break;
      case ImportedArtifact::NO_TOOLCHAIN:
        no_toolchain[one.toolchain()].Add(one);
        return;
      case ImportedArtifact::NO_ROOM:
        no_room.Add(one);
        return;
      default:
        ++damaged;
        console.err << fmt::format("left out: {}: {}\n", Hex(one.key()), Printable(one.why()));
        return;
    }
    if (one.not_leased()) ++not_leased;
    ++targets[TargetName(one.target())];
  }
};

// Three blocks at once: the daemon stores two, and has the next one when one is done. The daemon
// checks the signature of each, so what it answers of a block was signed.
class Importer {
 public:
  // `manifest`: where the manifest of the bundle goes, or null.
  Importer(BundleReader& bundle, AdminClient& admin, Session& session, UnfinishedFile* manifest)
      : admin_(admin), session_(session), bundle_(bundle), manifest_(manifest) {}

  // What came in is in `imported`, whatever is returned.
  absl::Status Run(Imported& imported) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kImportCallsMax; ++i) threads.emplace_back([this] { SendOn(); });
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    // They are behind a block that was refused.
    for (const auto& [number, answer] : arrived_) Count(answer);
    progress_.Clear();
    imported = std::move(imported_);
    KILN_RETURN_IF_ERROR(status_);
    if (imported.end == imported.all()) return absl::OkStatus();
    return DataLoss("the bundle is cut off: {} of it came in",
                    FormatCount(imported.all(), "artifact"));
  }

 private:
  // Until the end of the bundle, or an error.
  void SendOn() {
    MutexLock lock(mutex_);
    while (status_.ok()) {
      if (arrived_.size() >= kAheadMax) {
        changed_.Wait(mutex_);
        continue;
      }
      auto block = bundle_.Next();
      if (!block.ok()) status_.Update(block.status());
      if (!block.ok() || !*block) return;
      admin::v1::ImportBlockRequest request;
      request.set_bundle(bundle_.id());
      request.set_number((*block)->number);
      request.set_frame(std::move((*block)->frame));
      request.set_signature(std::move((*block)->signature));
      request.set_wants_manifest(manifest_ != nullptr);
      lock.Unlock();
      auto answer = admin_.ImportBlock(session_.Call(), request);
      lock.Lock();
      if (answer.ok()) {
        arrived_.emplace(request.number(), *std::move(answer));
        TakeArrived();
      }
      status_.Update(answer.status());
      changed_.NotifyAll();
    }
  }

  // In the order of the bundle.
  void TakeArrived() KILN_REQUIRES(mutex_) {
    for (auto next = arrived_.find(taken_); next != arrived_.end(); next = arrived_.find(taken_)) {
      status_.Update(Take(next->second));
      arrived_.erase(next);
      ++taken_;
    }
  }

  absl::Status Take(const admin::v1::ImportBlockResponse& answer) KILN_REQUIRES(mutex_) {
    if (imported_.end) return DataLoss("the bundle is damaged: it goes on behind its end");
    Count(answer);
    if (answer.has_end()) imported_.end = answer.end().artifacts();
    return manifest_ == nullptr ? absl::OkStatus() : CannotRun(manifest_->Write(answer.manifest()));
  }

  void Count(const admin::v1::ImportBlockResponse& answer) KILN_REQUIRES(mutex_) {
    progress_.Clear();
    for (const auto& one : answer.artifacts()) imported_.Count(one, session_.console());
    progress_.Update(imported_.all());
  }

  AdminClient& admin_;
  Session& session_;
  Mutex mutex_;
  CondVar changed_;
  BundleReader& bundle_ KILN_GUARDED_BY(mutex_);
  UnfinishedFile* const manifest_;
  absl::Status status_ KILN_GUARDED_BY(mutex_);
  std::map<uint64_t, admin::v1::ImportBlockResponse> arrived_ KILN_GUARDED_BY(mutex_);
  uint64_t taken_ KILN_GUARDED_BY(mutex_) = 0;  // blocks, from the first on
  Imported imported_ KILN_GUARDED_BY(mutex_);
  Progress progress_ KILN_GUARDED_BY(mutex_){session_.console(), SystemClock(), std::nullopt,
                                             ProgressLines::kText};
};

void Tell(const LeftOut& left_out, std::string_view why, std::string_view advice,
          Console& console) {
  console.err << fmt::format("{} left out: {}\n", FormatCount(left_out.count, "artifact"), why);
  for (const std::string& name : left_out.names) console.err << fmt::format("  {}\n", name);
  if (left_out.count > left_out.names.size()) {
    console.err << fmt::format("  and {} more\n", left_out.count - left_out.names.size());
  }
  console.err << fmt::format("  try: {}, and import again\n", advice);
}

// `toolchain`: "triton==3.6.0". Only some kinds can be installed, and each as its publisher built
// it.
std::string AdviceOnToolchain(const std::string& toolchain) {
  const std::string name = toolchain.substr(0, toolchain.find('='));
  const std::string by_path = fmt::format("kiln toolchain add {} --path DIR", name);
  const bool can_be_installed = name == "triton" || name == "nvrtc";
  if (!can_be_installed) return fmt::format("'{}'", by_path);
  return fmt::format("'kiln toolchain add {}', or '{}' where it is another build", toolchain,
                     by_path);
}

void Report(const Imported& imported, Session& session) {
  Console& console = session.console();
  if (session.json()) {
    Json no_toolchain = Json::object();
    for (const auto& [toolchain, left_out] : imported.no_toolchain) {
      no_toolchain[toolchain] = left_out.count;
    }
    console.out << Dump(Json{{"stored", imported.stored},
                             {"there_already", imported.there},
                             {"damaged", imported.damaged},
                             {"not_leased", imported.not_leased},
                             {"no_toolchain", no_toolchain},
                             {"no_room", imported.no_room.count},
                             {"targets", imported.targets}})
                << std::endl;
    return;
  }
  console.err << fmt::format("{} stored, {} there already\n",
                             FormatCount(imported.stored, "artifact"), imported.there);
  for (const auto& [target, count] : imported.targets) {
    console.err << fmt::format("  {}: {}\n", target, count);
  }
  if (imported.not_leased > 0) {
    console.err << fmt::format(
        "  {} not leased, since the leases of this user, or of all, have their share: they may be "
        "evicted before the job runs\n",
        imported.not_leased);
  }
  for (const auto& [toolchain, left_out] : imported.no_toolchain) {
    Tell(left_out,
         fmt::format("compiled by {}, and no toolchain here has its fingerprint",
                     Printable(toolchain)),
         AdviceOnToolchain(Printable(toolchain)), console);
  }
  if (imported.no_room.count > 0) {
    Tell(imported.no_room, imported.no_room.why,
         "'kiln doctor', a larger store.size, or make room with 'kiln evict --to'", console);
  }
}

absl::Status FinishManifest(UnfinishedFile& manifest) {
  if (manifest.bytes() == 0)
    return NotFound("the bundle brings no manifest; its artifacts are stored");
  KILN_RETURN_IF_ERROR(manifest.Sync());
  return manifest.Finish();
}

absl::StatusOr<ExitCode> RunImport(const ImportArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(BundleReader bundle,
                        CannotRun(About(arguments.file, BundleReader::Open(arguments.file))));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  Imported imported;
  std::unique_ptr<UnfinishedFile> manifest;
  if (!arguments.manifest.empty()) {
    // A warm takes keys only from a manifest that nobody else may write.
    KILN_ASSIGN_OR_RETURN(manifest,
                          CannotRun(UnfinishedFile::Create(FollowLinks(arguments.manifest), 0644)));
  }
  const absl::Status status = Importer(bundle, *admin, session, manifest.get()).Run(imported);
  if (imported.all() > 0 || status.ok()) Report(imported, session);
  if (!imported.end && absl::IsDataLoss(status)) session.TellOtherVersion(*admin);
  KILN_RETURN_IF_ERROR(CannotRun(About(arguments.file, status)));
  if (manifest != nullptr) KILN_RETURN_IF_ERROR(CannotRun(FinishManifest(*manifest)));
  return imported.left_out() == 0 ? kOk : kFailed;
}

}  // namespace

void AddImport(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("import", "Store the artifacts of a bundle", RunImport);
  command.Add("FILE", arguments.file, "The bundle; - for the standard input",
              {.is_required = true, .is_path = true});
  command.Add("-o,--output", arguments.manifest, "Write the manifest that the bundle was made from",
              {.value_name = "MANIFEST", .is_path = true});
}

}  // namespace kiln::cli
