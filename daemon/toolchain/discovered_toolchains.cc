#include "daemon/toolchain/discovered_toolchains.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_files.h"
#include "daemon/toolchain/toolchain_selector.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using ToolchainPtr = std::shared_ptr<const Toolchain>;

// The directories that may be toolchains, in order of preference.
std::vector<std::string> Candidates(const std::vector<std::string>& search_path,
                                    Filesystem& filesystem) {
  std::vector<std::string> candidates;
  for (const std::string& directory : search_path) {
    const auto entries = filesystem.List(directory);
    if (!entries.ok()) {
      if (!absl::IsNotFound(entries.status())) {
        LogWarning("toolchain directory not readable",
                   {{"path", directory}, {"error", Message(entries.status())}});
      }
      continue;
    }
    if (FindTritonPackage(directory).ok()) {
      candidates.push_back(directory);
      continue;
    }
    std::vector<std::string> found;
    for (const DirectoryEntry& entry : *entries) {
      std::error_code error;
      const std::string path = directory + "/" + entry.name;
      // Hidden ones are somebody's half-made installation.
      if (entry.name.front() != '.' && std::filesystem::is_directory(path, error))
        found.push_back(path);
    }
    std::sort(found.begin(), found.end());
    candidates.insert(candidates.end(), found.begin(), found.end());
  }
  return candidates;
}

// Learns what a directory is, with the help of what was learned before.
class Examiner {
 public:
  Examiner(const DiscoveryOptions& options, Filesystem& filesystem, const Digest& script)
      : options_(options), script_(script), cache_(options.cache_directory, filesystem) {}

  absl::StatusOr<ToolchainPtr> Examine(const std::string& directory) {
    KILN_ASSIGN_OR_RETURN(const std::string package, FindTritonPackage(directory));
    auto toolchain = std::make_shared<Toolchain>();
    toolchain->directory = directory;
    toolchain->interpreter = directory + "/bin/python";
    KILN_ASSIGN_OR_RETURN(toolchain->fingerprint, FingerprintOf(package));
    KILN_RETURN_IF_ERROR(DescribeInto(*toolchain));
    return ToolchainPtr(std::move(toolchain));
  }

  void Finish() { cache_.RemoveUnused(); }

 private:
  absl::StatusOr<Digest> FingerprintOf(const std::string& package) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ToolchainFile> files, ListToolchainFiles(package));
    const Digest listing = ListingDigest(package, files);
    if (const auto known = cache_.FindFingerprint(listing)) return *known;
    KILN_ASSIGN_OR_RETURN(const Digest fingerprint, Fingerprint(package, files));
    cache_.StoreFingerprint(listing, fingerprint);
    return fingerprint;
  }

  absl::Status DescribeInto(Toolchain& toolchain) {
    if (const auto known = cache_.FindDescription(toolchain.fingerprint, script_)) {
      if (ParseDescription(*known, toolchain).ok()) return absl::OkStatus();
    }
    KILN_ASSIGN_OR_RETURN(const std::string text,
                          AskForDescription(toolchain.interpreter, options_.worker_script,
                                            options_.work_directory, options_.describe_time));
    KILN_RETURN_IF_ERROR(ParseDescription(text, toolchain));
    cache_.StoreDescription(toolchain.fingerprint, script_, text);
    return absl::OkStatus();
  }

  const DiscoveryOptions& options_;
  const Digest script_;
  ToolchainCache cache_;
};

// Why `toolchain` cannot do it, or "".
std::string WhyNot(const Toolchain& toolchain, SourceKind kind, const Target& target) {
  if (std::find(toolchain.kinds.begin(), toolchain.kinds.end(), kind) == toolchain.kinds.end()) {
    return fmt::format("does not compile {}", SourceKindName(kind));
  }
  const BackendDescription* backend = toolchain.FindBackend(target.backend);
  if (backend == nullptr) {
    std::vector<std::string_view> names;
    for (const BackendDescription& each : toolchain.backends) names.push_back(each.backend);
    return fmt::format("has no backend {}, it has {}", target.backend, fmt::join(names, ", "));
  }
  if (const std::string_view bad = KnownBad(toolchain.name, toolchain.version, target.backend);
      !bad.empty()) {
    return fmt::format("not used for {}: {}", target.backend, bad);
  }
  const auto& architectures = backend->architectures;
  if (std::find(architectures.begin(), architectures.end(), target.architecture) ==
      architectures.end()) {
    return fmt::format("does not compile for {}, its architectures for {} are {}",
                       target.ToString(), target.backend, fmt::join(architectures, ", "));
  }
  return "";
}

}  // namespace

std::unique_ptr<DiscoveredToolchains> DiscoveredToolchains::Discover(
    const DiscoveryOptions& options, Filesystem& filesystem) {
  const auto script = filesystem.Read(options.worker_script, limits::kRecordBytesMax);
  Examiner examiner(options, filesystem, script.ok() ? Digest::Of(*script) : Digest());
  std::vector<ToolchainPtr> found;
  std::vector<Rejected> rejected;
  for (const std::string& directory : Candidates(options.search_path, filesystem)) {
    absl::StatusOr<ToolchainPtr> toolchain =
        script.ok() ? examiner.Examine(directory) : script.status();
    if (!toolchain.ok()) {
      LogWarning("toolchain rejected",
                 {{"path", directory}, {"reason", Message(toolchain.status())}});
      rejected.push_back({directory, std::string(Message(toolchain.status()))});
      continue;
    }
    const bool is_new = std::none_of(found.begin(), found.end(), [&](const ToolchainPtr& other) {
      return other->fingerprint == (*toolchain)->fingerprint;
    });
    LogInfo(is_new ? "toolchain found" : "toolchain found again",
            {{"name", (*toolchain)->Name()},
             {"fingerprint", (*toolchain)->fingerprint.ShortHex()},
             {"path", directory},
             {"assembler", (*toolchain)->assembler}});
    if (is_new) found.push_back(*std::move(toolchain));
  }
  examiner.Finish();
  return std::make_unique<DiscoveredToolchains>(std::move(found), std::move(rejected),
                                                options.default_selector);
}

DiscoveredToolchains::DiscoveredToolchains(std::vector<ToolchainPtr> found,
                                           std::vector<Rejected> rejected,
                                           std::string default_selector)
    : toolchains_(std::move(found)),
      rejected_(std::move(rejected)),
      default_selector_(std::move(default_selector)) {
  std::stable_sort(
      toolchains_.begin(), toolchains_.end(),
      [](const ToolchainPtr& a, const ToolchainPtr& b) { return IsOlder(b->version, a->version); });
  const auto preferred = ToolchainSelector::Parse(default_selector_);
  if (!preferred.ok() || preferred->IsAny()) return;
  std::stable_partition(toolchains_.begin(), toolchains_.end(), [&](const ToolchainPtr& each) {
    return preferred->Differs(*each).empty();
  });
}

absl::StatusOr<ToolchainPtr> DiscoveredToolchains::Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const {
  const std::string_view wanted = selector.empty() ? std::string_view(default_selector_) : selector;
  KILN_ASSIGN_OR_RETURN(const ToolchainSelector parsed, ToolchainSelector::Parse(wanted));
  std::string decisions;
  const auto decide = [&decisions](std::string_view what, std::string_view why) {
    decisions += fmt::format("{}{}: {}", decisions.empty() ? "" : "; ", what, why);
  };
  for (const ToolchainPtr& toolchain : toolchains_) {
    std::string why = parsed.Differs(*toolchain);
    if (why.empty()) why = WhyNot(*toolchain, kind, target);
    if (why.empty()) return toolchain;
    decide(fmt::format("{} (sha256 {}…)", toolchain->Name(), toolchain->fingerprint.ShortHex()),
           why);
  }
  for (const Rejected& each : rejected_) decide(each.directory, "rejected, " + each.reason);
  if (decisions.empty()) decisions = "there are none here; install one with deploy/quickstart";
  return FailedPrecondition("no toolchain fits {} ({} for {}): {}",
                            wanted.empty() ? "the request" : fmt::format("\"{}\"", wanted),
                            SourceKindName(kind), target.ToString(), decisions);
}

}  // namespace kiln
