#include "daemon/toolchain/toolchain_examiner.h"

#include <algorithm>

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

absl::Status CheckNotKnownBad(std::string_view name, std::string_view version) {
  const std::string_view reason = version.empty() ? "" : KnownBad(name, version, "");
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
absl::Status CheckSame(const FoundToolchain& found, const Toolchain& described) {
  if (described.name != found.name) {
    return FailedPrecondition("it says that it is {}, not {}", described.name, found.name);
  }
  // A distribution's version may have a local part that Triton itself does not know: 3.6.0+rocm7.
  const std::string_view release =
      std::string_view(found.version).substr(0, found.version.find('+'));
  const std::string_view said =
      std::string_view(described.version).substr(0, described.version.find('+'));
  if (release.empty() || release == said) return absl::OkStatus();
  return FailedPrecondition("its files are of Triton {}, but its bin/python imports Triton {}",
                            found.version, described.version);
}

std::vector<std::string> DescribeArguments(const std::string& program,
                                           const FoundToolchain& found) {
  if (found.name == kTriton) {
    // -I: neither the environment, nor the user's packages, nor the current directory has a say.
    // -B: a toolchain is never written to.
    return {found.interpreter, "-I", "-B", program, "--describe", "--output-fd", "3"};
  }
  std::vector<std::string> arguments{program, "--describe",      "--output-fd",
                                     "3",     "--" + found.name, found.path};
  for (const std::string& directory : found.includes) {
    arguments.insert(arguments.end(), {"--include", directory});
  }
  return arguments;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Toolchain>> ToolchainExaminer::Examine(
    const FoundToolchain& found) {
  KILN_RETURN_IF_ERROR(found.problem);
  // Before it is run: one that is too old would only fail with words that help nobody.
  KILN_RETURN_IF_ERROR(CheckNotKnownBad(found.name, found.version));
  KILN_ASSIGN_OR_RETURN(const auto snapshot, FileSnapshot::Take([found, owners = owners_] {
                          return ListFiles(found, owners);
                        }));
  const Digest listing = ListingDigest(found, snapshot->files());
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintOf(found, *snapshot, listing));
  KILN_ASSIGN_OR_RETURN(Toolchain described, Describe(found, fingerprint));
  KILN_RETURN_IF_ERROR(CheckNotKnownBad(described.name, described.version));
  LeaveOutKnownBad(described);
  if (described.backends.empty()) {
    return FailedPrecondition("it compiles for no target on this machine");
  }
  auto toolchain = std::make_shared<Toolchain>(std::move(described));
  toolchain->fingerprint = fingerprint;
  toolchain->directory = found.path;
  toolchain->interpreter = found.interpreter;
  toolchain->includes = found.includes;
  toolchain->installation = found.installation;
  toolchain->listing = listing;
  toolchain->seal = snapshot;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

absl::StatusOr<Digest> ToolchainExaminer::FingerprintOf(const FoundToolchain& found,
                                                        const FileSnapshot& snapshot,
                                                        const Digest& listing) {
  const auto known = cache_.FindFingerprint(listing);
  if (known && (found.name == kPtxas || cache_.HasText(*known))) return *known;
  KILN_ASSIGN_OR_RETURN(const auto fingerprint, Fingerprint(found, snapshot.files()));
  if (const absl::Status same = snapshot.Check(); !same.ok()) {
    return Unavailable("it changed while it was read ({}); it is looked at again soon",
                       Message(same));
  }
  cache_.StoreFingerprint(listing, fingerprint.digest);
  if (!fingerprint.text.empty()) cache_.StoreText(fingerprint);
  return fingerprint.digest;
}

absl::StatusOr<Toolchain> ToolchainExaminer::Describe(const FoundToolchain& found,
                                                      const Digest& fingerprint) {
  if (const auto known = cache_.FindDescription(fingerprint, program_.digest)) {
    absl::StatusOr<Toolchain> described = ParseDescription(*known);
    if (described.ok() && CheckSame(found, *described).ok()) return described;
  }
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      RunDescribe(DescribeArguments(program_.path, found), program_.work_directory, program_.time));
  KILN_ASSIGN_OR_RETURN(Toolchain described, ParseDescription(text));
  KILN_RETURN_IF_ERROR(CheckSame(found, described));
  cache_.StoreDescription(fingerprint, program_.digest, text);
  return described;
}

}  // namespace kiln
