#include "daemon/toolchain/toolchain_examiner.h"

#include <algorithm>

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr std::string_view kTriton = "triton";

absl::Status CheckNotKnownBad(std::string_view version) {
  if (version.empty()) return absl::OkStatus();
  const std::string_view reason = KnownBad(kTriton, version, "");
  return reason.empty() ? absl::OkStatus() : FailedPrecondition("{}", reason);
}

void LeaveOutKnownBad(Toolchain& toolchain) {
  const auto is_bad = [&](const BackendDescription& backend) {
    const std::string_view reason = KnownBad(toolchain.name, toolchain.version, backend.backend);
    if (reason.empty()) return false;
    LogWarning("backend of a toolchain left out",
               {{"name", toolchain.Name()}, {"backend", backend.backend}, {"reason", reason}});
    return true;
  };
  auto& backends = toolchain.backends;
  backends.erase(std::remove_if(backends.begin(), backends.end(), is_bad), backends.end());
}

// The interpreter may import another Triton than the directory's own: through a link that leads
// elsewhere, or a .pth file.
absl::Status CheckSame(const ToolchainDirectory& directory, const Toolchain& described) {
  if (described.name != kTriton) {
    return FailedPrecondition("it says that it is {}, not Triton", described.name);
  }
  // A distribution's version may have a local part that Triton itself does not know: 3.6.0+rocm7.
  const std::string_view release =
      std::string_view(directory.version).substr(0, directory.version.find('+'));
  const std::string_view said =
      std::string_view(described.version).substr(0, described.version.find('+'));
  if (!release.empty() && release != said) {
    return FailedPrecondition("its files are of Triton {}, but its bin/python imports Triton {}",
                              directory.version, described.version);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const FileSnapshot>> TakeSnapshot(
    const ToolchainDirectory& directory) {
  SnapshotSource source;
  source.list = [directory]() -> absl::StatusOr<FileListing> {
    KILN_ASSIGN_OR_RETURN(FileListing listing, ListToolchainFiles(directory.package));
    for (const std::string& path : {directory.interpreter, directory.path + "/pyvenv.cfg"}) {
      KILN_ASSIGN_OR_RETURN(ToolchainFile other, InspectIfThere(path));
      listing.others.push_back(std::move(other));
    }
    return listing;
  };
  source.prefix = directory.package + "/";
  return FileSnapshot::Take(std::move(source));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Toolchain>> ToolchainExaminer::Examine(
    const ToolchainDirectory& directory) {
  KILN_RETURN_IF_ERROR(directory.problem);
  // Before it is run: one that is too old would only fail with words that help nobody.
  KILN_RETURN_IF_ERROR(CheckNotKnownBad(directory.version));
  FileTrust trust(owners_);
  KILN_RETURN_IF_ERROR(ListToolchainFiles(directory.package, &trust).status());
  KILN_ASSIGN_OR_RETURN(const auto snapshot, TakeSnapshot(directory));
  const Digest listing = ListingDigest(directory, snapshot->files());
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintOf(directory, *snapshot, listing));
  KILN_ASSIGN_OR_RETURN(Toolchain described, Describe(directory, fingerprint));
  KILN_RETURN_IF_ERROR(CheckNotKnownBad(described.version));
  LeaveOutKnownBad(described);
  if (described.backends.empty()) {
    return FailedPrecondition("it compiles for no target on this machine");
  }
  auto toolchain = std::make_shared<Toolchain>(std::move(described));
  toolchain->fingerprint = fingerprint;
  toolchain->directory = directory.path;
  toolchain->installation = directory.path;
  toolchain->listing = ListingDigest(listing, snapshot->others());
  toolchain->seal = snapshot;
  toolchain->interpreter = directory.interpreter;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

absl::StatusOr<Digest> ToolchainExaminer::FingerprintOf(const ToolchainDirectory& directory,
                                                        const FileSnapshot& snapshot,
                                                        const Digest& listing) {
  if (const auto known = cache_.FindFingerprint(listing)) return *known;
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, Fingerprint(directory, snapshot.files()));
  cache_.StoreFingerprint(listing, fingerprint);
  return fingerprint;
}

absl::StatusOr<Toolchain> ToolchainExaminer::Describe(const ToolchainDirectory& directory,
                                                      const Digest& fingerprint) {
  if (const auto known = cache_.FindDescription(fingerprint, program_.digest)) {
    absl::StatusOr<Toolchain> described = ParseDescription(*known);
    if (described.ok() && CheckSame(directory, *described).ok()) return described;
  }
  // -I: neither the environment, nor the user's packages, nor the current directory has a say.
  // -B: a toolchain is never written to.
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        RunDescribe({directory.interpreter, "-I", "-B", program_.path, "--describe",
                                     "--output-fd", "3"},
                                    program_.work_directory, program_.time));
  KILN_ASSIGN_OR_RETURN(Toolchain described, ParseDescription(text));
  KILN_RETURN_IF_ERROR(CheckSame(directory, described));
  cache_.StoreDescription(fingerprint, program_.digest, text);
  return described;
}

}  // namespace kiln
