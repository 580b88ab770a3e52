#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
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
#include "storage/base/unique_fd.h"
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

// The manifest that came in the bundle. The file appears under its name at the end.
class ManifestFile {
 public:
  // Without a path the manifest is passed over.
  static absl::StatusOr<std::unique_ptr<ManifestFile>> Create(const std::string& path) {
    std::unique_ptr<ManifestFile> made(new ManifestFile(path));
    if (path.empty()) return made;
    (void)::unlink(made->unfinished_.c_str());
    // Nobody else may write it, or no warm takes its keys.
    made->file_.Reset(
        ::open(made->unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!made->file_) return ErrnoStatus(errno, path);
    return made;
  }
  ~ManifestFile() {
    if (file_) (void)::unlink(unfinished_.c_str());
  }
  ManifestFile(const ManifestFile&) = delete;
  ManifestFile& operator=(const ManifestFile&) = delete;

  absl::Status Append(std::string_view part) {
    bytes_ += part.size();
    while (file_ && !part.empty()) {
      const ssize_t written = ::write(file_.get(), part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, path_);
      part.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (!file_) return absl::OkStatus();
    if (bytes_ == 0) return NotFound("the bundle brings no manifest");
    if (::fsync(file_.get()) != 0 || std::rename(unfinished_.c_str(), path_.c_str()) != 0) {
      return ErrnoStatus(errno, path_);
    }
    file_.Reset();
    return absl::OkStatus();
  }

 private:
  explicit ManifestFile(std::string path)
      : path_(std::move(path)), unfinished_(fmt::format("{}.{}.unfinished", path_, ::getpid())) {}

  const std::string path_;
  const std::string unfinished_;
  UniqueFd file_;  // none: it has its name, or is not wanted
  uint64_t bytes_ = 0;
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
    KILN_RETURN_IF_ERROR(manifest.Append(read.manifest()));
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
  KILN_ASSIGN_OR_RETURN(const auto manifest, CannotRun(ManifestFile::Create(arguments.manifest)));
  const absl::Status status = ImportAll(bundle, *admin, session, *manifest, imported);
  if (imported.all() > 0 || status.ok()) Report(imported, session);
  KILN_RETURN_IF_ERROR(CannotRun(About(arguments.file, status)));
  KILN_RETURN_IF_ERROR(CannotRun(About(arguments.manifest, manifest->Finish())));
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
