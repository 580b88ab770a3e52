#include "daemon/toolchain/native_examiner.h"

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_files.h"

namespace kiln {

absl::StatusOr<std::shared_ptr<const Toolchain>> NativeExaminer::Examine(
    const NativeToolchain& found) {
  if (!found.problem.empty()) return FailedPrecondition("{}", found.problem);
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintOf(found));
  KILN_ASSIGN_OR_RETURN(Toolchain described, Describe(found, fingerprint));
  if (described.name != found.name) {
    return FailedPrecondition("it says that it is {}, not {}", described.name, found.name);
  }
  const std::string_view bad = KnownBad(described.name, described.version, "");
  if (!bad.empty()) return FailedPrecondition("{}", bad);
  auto toolchain = std::make_shared<Toolchain>(std::move(described));
  toolchain->fingerprint = fingerprint;
  toolchain->directory = found.path;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

absl::StatusOr<Digest> NativeExaminer::FingerprintOf(const NativeToolchain& found) {
  KILN_ASSIGN_OR_RETURN(const ToolchainFile file, InspectFile(found.path));
  const Digest listing = ListingDigest(file);
  if (const auto known = cache_.FindFingerprint(listing)) return *known;
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintFile(file));
  cache_.StoreFingerprint(listing, fingerprint);
  return fingerprint;
}

absl::StatusOr<Toolchain> NativeExaminer::Describe(const NativeToolchain& found,
                                                   const Digest& fingerprint) {
  if (const auto known = cache_.FindDescription(fingerprint, program_.digest)) {
    absl::StatusOr<Toolchain> described = ParseDescription(*known);
    if (described.ok()) return described;
  }
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      RunDescribe({program_.path, "--describe", "--output-fd", "3", "--" + found.name, found.path},
                  program_.work_directory, program_.time));
  KILN_ASSIGN_OR_RETURN(Toolchain described, ParseDescription(text));
  cache_.StoreDescription(fingerprint, program_.digest, text);
  return described;
}

}  // namespace kiln
