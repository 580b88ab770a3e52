#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
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

// What became of the artifacts.
struct Imported {
  uint64_t stored = 0;
  uint64_t there = 0;
  uint64_t damaged = 0;
  std::map<std::string, uint64_t> targets;       // of those that are in the store now
  std::map<std::string, uint64_t> no_toolchain;  // by toolchain
  std::optional<uint64_t> end;                   // how many there should be

  uint64_t left_out() const {
    uint64_t count = damaged;
    for (const auto& [toolchain, of_it] : no_toolchain) count += of_it;
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
        ++no_toolchain[one.toolchain()];
        return;
      default:
        ++damaged;
        console.err << fmt::format("left out: {}: {}\n", Hex(one.key()), Printable(one.why()));
        return;
    }
    ++targets[TargetName(one.target())];
  }
};

// The manifest that came in the bundle. Without a path it is passed over. The file appears under
// its name at the end.
class ManifestFile {
 public:
  explicit ManifestFile(const std::string& path)
      : path_(path), unfinished_(fmt::format("{}.{}.unfinished", path, ::getpid())) {
    if (!path_.empty()) file_.open(unfinished_, std::ios::binary);
  }
  ~ManifestFile() {
    if (!path_.empty()) (void)std::remove(unfinished_.c_str());  // nothing, where it has its name
  }
  ManifestFile(const ManifestFile&) = delete;
  ManifestFile& operator=(const ManifestFile&) = delete;

  void Append(const std::string& part) {
    is_empty_ = is_empty_ && part.empty();
    if (!path_.empty()) file_ << part;
  }
  absl::Status Finish() {
    if (path_.empty()) return absl::OkStatus();
    if (is_empty_) return NotFound("the bundle was not made from a manifest");
    file_.close();
    if (file_ && std::rename(unfinished_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, path_);
  }

 private:
  const std::string path_;
  const std::string unfinished_;
  std::ofstream file_;
  bool is_empty_ = true;
};

// The daemon checks the signature of each block. So what is read here of a block was signed.
absl::Status ImportAll(BundleReader& bundle, AdminClient& admin, Session& session,
                       ManifestFile& manifest, Imported& imported) {
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
    manifest.Append(read.manifest());
    if (read.has_end()) imported.end = read.end().artifacts();
  }
  if (imported.end == imported.all()) return absl::OkStatus();
  return DataLoss("the bundle is cut off: {} of it came in",
                  FormatCount(imported.all(), "artifact"));
}

void Report(const Imported& imported, Session& session) {
  Console& console = session.console();
  if (session.json()) {
    console.out << Dump(Json{{"stored", imported.stored},
                             {"there_already", imported.there},
                             {"damaged", imported.damaged},
                             {"no_toolchain", imported.no_toolchain},
                             {"targets", imported.targets}})
                << std::endl;
    return;
  }
  console.err << fmt::format("{} stored, {} there already\n",
                             FormatCount(imported.stored, "artifact"), imported.there);
  for (const auto& [target, count] : imported.targets) {
    console.err << fmt::format("  {}: {}\n", target, count);
  }
  for (const auto& [toolchain, count] : imported.no_toolchain) {
    console.err << fmt::format(
        "{} left out: compiled by {}, and no toolchain here has its fingerprint\n"
        "  try: kiln toolchain add {}, and import again\n",
        FormatCount(count, "artifact"), toolchain, toolchain);
  }
}

absl::StatusOr<ExitCode> RunImport(const ImportArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(BundleReader bundle,
                        CannotRun(About(arguments.file, BundleReader::Open(arguments.file))));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  Imported imported;
  ManifestFile manifest(arguments.manifest);
  const absl::Status status = ImportAll(bundle, *admin, session, manifest, imported);
  if (imported.all() > 0 || status.ok()) Report(imported, session);
  KILN_RETURN_IF_ERROR(CannotRun(About(arguments.file, status)));
  KILN_RETURN_IF_ERROR(CannotRun(About(arguments.manifest, manifest.Finish())));
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
