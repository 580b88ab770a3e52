#include "daemon/toolchain/discovered_toolchains.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/toolchain/decision_log.h"
#include "daemon/toolchain/found_toolchain.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_cache.h"
#include "daemon/toolchain/toolchain_examiner.h"
#include "daemon/toolchain/toolchain_selector.h"
#include "daemon/toolchain/version.h"
#include "daemon/toolchain/worker_digest.h"
#include "storage/base/log.h"
#include "storage/base/release.h"

namespace kiln {
namespace {

using ToolchainPtr = std::shared_ptr<const Toolchain>;
using Rejected = DiscoveredToolchains::Rejected;

constexpr std::string_view kFirstVersion = "3.6.0";
constexpr std::string_view kFirstNvrtc = "12.9.86";

std::string InstallHint(std::string_view name, std::string_view version) {
  return fmt::format("kiln toolchain add {}=={} (as root for the system's service) installs it",
                     name, version);
}

// For whoever has none of the kind. A Triton and an NVRTC bring a ptxas along.
std::string FirstInstallHint(SourceKind kind) {
  if (kind == SourceKind::kOpenCl) {
    return "Debian's packages clang-15, llvm-spirv-15 and spirv-tools bring it "
           "(deploy/install-packages opencl, as root), and then 'kiln toolchain reload'";
  }
  return kind == SourceKind::kCudaCxx ? InstallHint(kNvrtc, kFirstNvrtc)
                                      : InstallHint(kTriton, kFirstVersion);
}

template <typename T>
bool Has(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Null where there is none.
ToolchainPtr WithFingerprint(const std::vector<ToolchainPtr>& toolchains, const Digest& wanted) {
  const auto found = std::find_if(toolchains.begin(), toolchains.end(),
                                  [&](const auto& each) { return each->fingerprint == wanted; });
  return found == toolchains.end() ? nullptr : *found;
}

// "triton==3.6.0 (sha256 a1b2c3d4e5f6)"
std::string Label(const Toolchain& toolchain) {
  return fmt::format("{} (sha256 {})", toolchain.Name(), toolchain.fingerprint.ShortHex());
}

std::string Targets(const Toolchain& toolchain) {
  std::vector<std::string> targets;
  for (const BackendDescription& backend : toolchain.backends) {
    targets.push_back(fmt::format("{}:{}", backend.backend, fmt::join(backend.architectures, ",")));
  }
  return fmt::format("{}", fmt::join(targets, " "));
}

// Whether another try may end otherwise with nobody doing anything: descriptors or memory are
// lacking, a disk fails, the files are being written. Not where files may not be read, nor where it
// gives no answer, which would be waited for again and again.
bool IsPassing(const absl::Status& why) {
  return !absl::IsFailedPrecondition(why) && !absl::IsPermissionDenied(why) &&
         !absl::IsDeadlineExceeded(why);
}

// Whether anything is known to have been done to it.
bool IsAsItWas(const ToolchainPtr& toolchain) {
  return toolchain->seal == nullptr || !absl::IsFailedPrecondition(toolchain->seal->Check());
}

// Collects what is found, and says it.
struct Findings {
  void Add(ToolchainPtr toolchain) {
    const bool is_new = WithFingerprint(found, toolchain->fingerprint) == nullptr;
    LogInfo(is_new ? "toolchain found" : "toolchain found again, the first is used",
            {{"name", toolchain->Name()},
             {"fingerprint", toolchain->fingerprint.Hex()},
             {"path", toolchain->directory},
             {"assembler", toolchain->assembler},
             {"targets", Targets(*toolchain)}});
    if (is_new) found.push_back(std::move(toolchain));
  }

  void Reject(const FoundToolchain& one, const absl::Status& why) {
    rejected.push_back({one.path, std::string(Message(why)), one.installation, IsPassing(why)});
    LogWarning("toolchain rejected", {{"path", one.path}, {"reason", Message(why)}});
  }

  std::vector<ToolchainPtr> found;
  std::vector<Rejected> rejected;
};

absl::StatusOr<DescribeProgram> MakeProgram(const std::string& worker,
                                            const DiscoveryOptions& options,
                                            Filesystem& filesystem) {
  std::error_code error;
  // Filesystem follows no link.
  const std::string path = std::filesystem::canonical(worker, error);
  const auto digest = DigestOfWorker(error ? worker : path, filesystem);
  if (!digest.ok()) return Annotate(digest.status(), "the worker's program cannot be read");
  return DescribeProgram{path, *digest, options.work_directory, options.describe_time};
}

bool IsCancelled(const DiscoveryOptions& options) {
  return options.is_cancelled && options.is_cancelled();
}

Findings FindAll(const DiscoveryOptions& options, Filesystem& filesystem, ToolchainCache& cache) {
  const auto triton = MakeProgram(options.worker_script, options, filesystem);
  const auto native = MakeProgram(options.native_worker, options, filesystem);
  const auto examine = [&](const FoundToolchain& one) -> absl::StatusOr<ToolchainPtr> {
    KILN_RETURN_IF_ERROR(one.problem);
    const auto& program = one.name == kTriton ? triton : native;
    KILN_RETURN_IF_ERROR(program.status());
    return ToolchainExaminer(*program, cache, options.owners).Examine(one);
  };
  Findings findings;
  for (const FoundToolchain& one : FindToolchains(options.search_path, FileTrust(options.owners))) {
    if (IsCancelled(options)) break;
    const bool is_native = one.name == kPtxas || one.name == kNvrtc || one.name == kClang;
    if (is_native && options.native_worker.empty()) continue;
    absl::StatusOr<ToolchainPtr> toolchain = examine(one);
    if (toolchain.ok()) {
      findings.Add(*std::move(toolchain));
    } else {
      findings.Reject(one, toolchain.status());
    }
  }
  return findings;
}

std::string WhyNotTarget(const Toolchain& toolchain, const Target& target) {
  const std::string_view bad = KnownBad(toolchain.name, toolchain.version, target.backend);
  if (!bad.empty()) return fmt::format("is not used for {}: {}", target.backend, bad);
  const BackendDescription* backend = toolchain.FindBackend(target.backend);
  if (backend == nullptr) {
    std::vector<std::string_view> names;
    for (const BackendDescription& each : toolchain.backends) names.push_back(each.backend);
    return fmt::format("has no backend {}; it has {}", target.backend, fmt::join(names, ", "));
  }
  if (Has(backend->architectures, target.architecture)) return "";
  return fmt::format("does not compile for {}; it compiles for {}", target.ToString(),
                     fmt::join(backend->architectures, ", "));
}

// Why `toolchain` cannot do it, or "".
std::string WhyNot(const Toolchain& toolchain, SourceKind kind, const Target& target) {
  if (Has(toolchain.kinds, kind)) return WhyNotTarget(toolchain, target);
  std::vector<std::string_view> kinds;
  for (const SourceKind each : toolchain.kinds) kinds.push_back(SourceKindName(each));
  return fmt::format("does not compile {} sources; it compiles {}", SourceKindName(kind),
                     fmt::join(kinds, ", "));
}

// Whether a toolchain of this name, which is not here, would compile other kinds.
bool IsNamedForOtherKinds(std::string_view name, SourceKind kind) {
  const bool is_tritons = kind == SourceKind::kTtir || kind == SourceKind::kTtgir;
  if (name == kNvrtc) return kind != SourceKind::kCudaCxx;
  if (name == kPtxas) return kind != SourceKind::kPtx;
  if (name == kClang) return kind != SourceKind::kOpenCl;
  return name == kTriton && !is_tritons;
}

void AddRejected(const std::vector<Rejected>& rejected, DecisionLog& log) {
  for (const Rejected& each : rejected) {
    const size_t slash = each.directory.find_last_of('/');
    // The name alone: where it lies is the operator's business, and stands in the daemon's log.
    log.Add(fmt::format("{} (not usable)", each.directory.substr(slash + 1)), each.reason);
  }
}

}  // namespace

std::unique_ptr<DiscoveredToolchains> DiscoveredToolchains::Discover(
    const DiscoveryOptions& options, Filesystem& filesystem) {
  ToolchainCache cache(options.cache_directory, filesystem);
  Findings findings = FindAll(options, filesystem, cache);
  auto catalog = std::make_unique<DiscoveredToolchains>(
      std::move(findings.found), std::move(findings.rejected), options.default_selector);
  // What was not looked at is not unused.
  if (!IsCancelled(options) && !catalog->IsUnsettled()) cache.RemoveUnused();
  catalog->LogDefault();
  return catalog;
}

DiscoveredToolchains::DiscoveredToolchains(std::vector<ToolchainPtr> found,
                                           std::vector<Rejected> rejected,
                                           std::string default_selector)
    : found_(std::move(found)),
      toolchains_(found_),
      rejected_(std::move(rejected)),
      default_selector_(std::move(default_selector)) {
  std::stable_sort(toolchains_.begin(), toolchains_.end(),
                   [](const ToolchainPtr& a, const ToolchainPtr& b) {
                     if (a->kinds.front() != b->kinds.front())
                       return a->kinds.front() < b->kinds.front();
                     return Version(a->version) > Version(b->version);
                   });
  const auto preferred = ToolchainSelector::Parse(default_selector_);
  if (!preferred.ok()) return;
  std::stable_partition(toolchains_.begin(), toolchains_.end(),
                        [&](const ToolchainPtr& each) { return preferred->Matches(*each); });
}

std::shared_ptr<const DiscoveredToolchains> DiscoveredToolchains::WithDefault(
    std::string default_selector) const {
  auto other =
      std::make_shared<DiscoveredToolchains>(found_, rejected_, std::move(default_selector));
  other->LogDefault();
  return other;
}

absl::Status DiscoveredToolchains::CheckDefault(std::string_view default_selector) const {
  KILN_ASSIGN_OR_RETURN(const ToolchainSelector wanted, Parsed(default_selector));
  const bool is_here = wanted.IsAny() ||
                       std::any_of(toolchains_.begin(), toolchains_.end(),
                                   [&](const ToolchainPtr& each) { return wanted.Matches(*each); });
  return is_here ? absl::OkStatus() : NoneSelected(default_selector, wanted);
}

void DiscoveredToolchains::LogDefault() const {
  if (toolchains_.empty()) {
    return LogWarning("no toolchain, so nothing can be compiled",
                      {{"next", InstallHint(kTriton, kFirstVersion)}});
  }
  if (HasDefault()) {
    return LogInfo("default toolchain", {{"name", toolchains_.front()->Name()}});
  }
  LogError("the default toolchain is not here",
           {{"default", default_selector_}, {"found", Describe()}});
}

bool DiscoveredToolchains::HasDefault() const {
  if (toolchains_.empty()) return false;
  const auto preferred = Select("");
  return preferred.ok() && preferred->Matches(*toolchains_.front());
}

std::vector<SourceKind> DiscoveredToolchains::DefaultKinds(const Toolchain& toolchain) const {
  std::vector<SourceKind> kinds;
  for (const SourceKind kind : toolchain.kinds) {
    const auto wanted = SelectFor("", kind);
    if (!wanted.ok()) continue;
    const auto first = std::find_if(
        toolchains_.begin(), toolchains_.end(),
        [&](const ToolchainPtr& each) { return wanted->Matches(*each) && Has(each->kinds, kind); });
    const bool is_first =
        first != toolchains_.end() && (*first)->fingerprint == toolchain.fingerprint;
    if (is_first) kinds.push_back(kind);
  }
  return kinds;
}

absl::StatusOr<ToolchainPtr> DiscoveredToolchains::Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const {
  KILN_ASSIGN_OR_RETURN(const ToolchainSelector wanted, SelectFor(selector, kind));
  bool selected = false;
  for (const ToolchainPtr& toolchain : toolchains_) {
    if (!wanted.Matches(*toolchain)) continue;
    if (WhyNot(*toolchain, kind, target).empty()) return toolchain;
    selected = true;
  }
  if (selected) return NoneFits(wanted, kind, target);
  if (toolchains_.empty()) return NoneHere(kind);
  if (!selector.empty()) return NoneSelected(selector, wanted);
  return Annotate(
      NoneSelected(default_selector_, wanted),
      "the default toolchain of this daemon is missing: 'kiln toolchain default --newest' "
      "takes a choice back, unless toolchain.default is set");
}

bool DiscoveredToolchains::IsUnsettled() const {
  return std::any_of(rejected_.begin(), rejected_.end(),
                     [](const Rejected& each) { return each.is_unsettled; });
}

bool DiscoveredToolchains::IsUnseen(const Toolchain& toolchain) const {
  const std::string within = toolchain.installation + "/";
  bool is_unseen = false;
  for (const Rejected& each : rejected_) {
    if (!each.is_unsettled && each.directory == toolchain.directory) return false;
    is_unseen = is_unseen || (each.is_unsettled && within.starts_with(each.installation + "/"));
  }
  return is_unseen;
}

std::shared_ptr<const DiscoveredToolchains> DiscoveredToolchains::Keeping(
    const DiscoveredToolchains& before) const {
  const auto is_kept = [&](const ToolchainPtr& each) { return IsUnseen(*each) && IsAsItWas(each); };
  // In the order of before, so that of equal versions the same is the first.
  std::vector<ToolchainPtr> all;
  for (const ToolchainPtr& each : before.found_) {
    const ToolchainPtr again = WithFingerprint(found_, each->fingerprint);
    if (again != nullptr || is_kept(each)) all.push_back(again != nullptr ? again : each);
  }
  for (const ToolchainPtr& each : found_) {
    if (WithFingerprint(all, each->fingerprint) == nullptr) all.push_back(each);
  }
  return std::make_shared<const DiscoveredToolchains>(std::move(all), rejected_, default_selector_);
}

std::string DiscoveredToolchains::Describe() const {
  std::vector<std::string> names;
  for (const ToolchainPtr& each : toolchains_) {
    names.push_back(fmt::format("{} ({})", each->Name(), each->fingerprint.ShortHex()));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

absl::Status DiscoveredToolchains::CheckNamesOne(std::string_view selector,
                                                 const ToolchainSelector& beginning) const {
  std::vector<std::string> named;
  for (const ToolchainPtr& each : toolchains_) {
    if (!beginning.Matches(*each)) continue;
    named.push_back(fmt::format("{} {}", each->Name(), each->fingerprint.Hex()));
  }
  if (named.size() <= 1) return absl::OkStatus();
  return InvalidArgument("several fingerprints begin with \"{}\": {}", selector,
                         fmt::join(named, ", "));
}

absl::StatusOr<ToolchainSelector> DiscoveredToolchains::Parsed(std::string_view selector) const {
  auto parsed = ToolchainSelector::Parse(selector);
  if (parsed.ok() && parsed->IsBeginning()) KILN_RETURN_IF_ERROR(CheckNamesOne(selector, *parsed));
  if (parsed.ok()) return parsed;
  const auto is_meant = [&](const ToolchainPtr& each) { return each->name == selector; };
  const auto meant = std::find_if(toolchains_.begin(), toolchains_.end(), is_meant);
  DecisionLog log;
  for (const ToolchainPtr& each : toolchains_) {
    if (meant == toolchains_.end() || is_meant(each)) log.Add(Label(*each), "");
  }
  const std::string here = log.ToString();
  std::string next;
  if (meant != toolchains_.end()) {
    next = fmt::format("; write {}", (*meant)->Name());
  } else if (IsInstallable(selector)) {
    next = "; " + InstallHint(selector, selector == kNvrtc ? kFirstNvrtc : kFirstVersion);
  }
  return InvalidArgument("{}; there {}{}", Message(parsed.status()),
                         here.empty() ? "is none" : "are " + here, next);
}

absl::StatusOr<ToolchainSelector> DiscoveredToolchains::Select(std::string_view selector) const {
  if (!selector.empty()) return Parsed(selector);
  auto preferred = ToolchainSelector::Parse(default_selector_);
  if (preferred.ok()) return preferred;
  // The operator's mistake, not the caller's.
  return FailedPrecondition("toolchain.default of this daemon is wrong: {}",
                            Message(preferred.status()));
}

absl::StatusOr<ToolchainSelector> DiscoveredToolchains::SelectFor(std::string_view selector,
                                                                  SourceKind kind) const {
  KILN_ASSIGN_OR_RETURN(ToolchainSelector wanted, Select(selector));
  // The default says which Triton, not which ptxas.
  if (selector.empty() && IsForOtherKinds(wanted, kind)) wanted = {};
  return wanted;
}

bool DiscoveredToolchains::IsForOtherKinds(const ToolchainSelector& selector,
                                           SourceKind kind) const {
  bool is_here = false;
  for (const ToolchainPtr& each : toolchains_) {
    if (!selector.Matches(*each)) continue;
    if (Has(each->kinds, kind)) return false;
    is_here = true;
  }
  return is_here || IsNamedForOtherKinds(selector.name(), kind);
}

absl::Status DiscoveredToolchains::NoneHere(SourceKind kind) const {
  DecisionLog log;
  AddRejected(rejected_, log);
  const std::string here = log.ToString();
  return FailedPrecondition("no toolchain is here{}{}; {}", here.empty() ? "" : ": ", here,
                            FirstInstallHint(kind));
}

absl::Status DiscoveredToolchains::NoneSelected(std::string_view wanted,
                                                const ToolchainSelector& selector) const {
  DecisionLog log;
  for (const ToolchainPtr& each : toolchains_) log.Add(Label(*each), "");
  AddRejected(rejected_, log);
  const std::string here = log.ToString();
  std::string next;
  if (IsInstallable(selector.name()) && IsRelease(selector.version())) {
    next = fmt::format("; {}", InstallHint(selector.name(), selector.version()));
  } else if (selector.name() == kPtxas) {
    next = "; kiln toolchain add ptxas --path DIR adds the one that is installed in DIR";
  }
  return FailedPrecondition("no toolchain here is \"{}\"; there are {}{}",
                            ShortAscii(wanted, limits::kDecisionNameBytesMax), here, next);
}

absl::Status DiscoveredToolchains::NoneFits(const ToolchainSelector& selector, SourceKind kind,
                                            const Target& target) const {
  const bool has_kind =
      std::any_of(toolchains_.begin(), toolchains_.end(),
                  [&](const ToolchainPtr& each) { return Has(each->kinds, kind); });
  // Without a selector, the log lists only toolchains that compile this kind.
  const bool are_others_left_out = selector.IsAny() && has_kind;
  DecisionLog log;
  std::string next = has_kind ? "" : "; " + FirstInstallHint(kind);
  for (const ToolchainPtr& each : toolchains_) {
    const std::string why_not = WhyNot(*each, kind, target);
    if (why_not.empty() && next.empty()) next = fmt::format("; {} fits", Label(*each));
    if (!selector.Matches(*each) || (are_others_left_out && !Has(each->kinds, kind))) continue;
    log.Add(Label(*each), why_not);
  }
  if (selector.IsAny()) AddRejected(rejected_, log);
  return FailedPrecondition("no toolchain fits {} for {}: {}{}", SourceKindName(kind),
                            ShortAscii(target.ToString(), limits::kDecisionNameBytesMax),
                            log.ToString(), next);
}

}  // namespace kiln
