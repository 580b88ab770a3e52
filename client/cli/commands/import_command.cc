#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "kiln/v1/bundle.pb.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {
namespace {

using admin::v1::ImportedArtifact;

struct ImportArguments {
  std::string file;
  std::string manifest;
};

constexpr size_t kNamesMax = 10;

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
    ++targets[TargetName(one.target())];
  }
};

// The daemon checks the signature of each block. So what is read here of a block was signed.
absl::Status ImportAll(BundleReader& bundle, AdminClient& admin, Session& session,
                       UnfinishedFile* manifest, Imported& imported) {
  Progress progress(session.console(), SystemClock(), std::nullopt, std::chrono::seconds(10));
  while (true) {
    KILN_ASSIGN_OR_RETURN(std::optional<BundleFrame> block, bundle.Next());
    if (!block) break;
    if (imported.end) return DataLoss("the bundle is damaged: it goes on behind its end");
    admin::v1::ImportBlockRequest request;
    request.set_bundle(bundle.id());
    request.set_number(block->number);
    request.set_frame(std::move(block->frame));
    request.set_signature(std::move(block->signature));
    KILN_ASSIGN_OR_RETURN(const auto answer, admin.ImportBlock(session.Call(), request));
    progress.Clear();
    for (const auto& one : answer.artifacts()) imported.Count(one, session.console());
    progress.Update(imported.all(), "");
    KILN_ASSIGN_OR_RETURN(const std::string content,
                          DecompressFrame(request.frame(), limits::kBundleBlockBytesMax));
    v1::BundleBlock read;
    if (!read.ParseFromString(content)) return DataLoss("the bundle is damaged");
    if (manifest != nullptr) KILN_RETURN_IF_ERROR(CannotRun(manifest->Write(read.manifest())));
    if (read.has_end()) imported.end = read.end().artifacts();
  }
  if (imported.end == imported.all()) return absl::OkStatus();
  return DataLoss("the bundle is cut off: {} of it came in",
                  FormatCount(imported.all(), "artifact"));
}

void Tell(const LeftOut& left_out, std::string_view why, std::string_view advice,
          Console& console) {
  console.err << fmt::format("{} left out: {}\n", FormatCount(left_out.count, "artifact"), why);
  for (const std::string& name : left_out.names) console.err << fmt::format("  {}\n", name);
  if (left_out.count > left_out.names.size()) {
    console.err << fmt::format("  and {} more\n", left_out.count - left_out.names.size());
  }
  console.err << fmt::format("  try: {}, and import again\n", advice);
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
  for (const auto& [toolchain, left_out] : imported.no_toolchain) {
    Tell(left_out,
         fmt::format("compiled by {}, and no toolchain here has its fingerprint",
                     Printable(toolchain)),
         fmt::format("kiln toolchain add {}", Printable(toolchain)), console);
  }
  if (imported.no_room.count > 0) {
    Tell(imported.no_room, imported.no_room.why,
         "'kiln doctor', a larger store.size, or make room with 'kiln evict --to'", console);
  }
}

absl::Status FinishManifest(UnfinishedFile& manifest) {
  if (manifest.bytes() == 0) return NotFound("the bundle brings no manifest");
  return manifest.Finish();
}

absl::StatusOr<ExitCode> RunImport(const ImportArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(BundleReader bundle,
                        CannotRun(About(arguments.file, BundleReader::Open(arguments.file))));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  Imported imported;
  std::unique_ptr<UnfinishedFile> manifest;
  if (!arguments.manifest.empty()) {
    // Nobody else may write it, or no warm takes its keys.
    KILN_ASSIGN_OR_RETURN(manifest, CannotRun(UnfinishedFile::Create(arguments.manifest, 0644)));
  }
  const absl::Status status = ImportAll(bundle, *admin, session, manifest.get(), imported);
  if (imported.all() > 0 || status.ok()) Report(imported, session);
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
