#include "daemon/kernel/request_resolver.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "daemon/kernel/canonical_options.h"
#include "daemon/kernel/compile_key.h"
#include "daemon/kernel/request_shape.h"

namespace kiln {
namespace {

// Spelling only: which of the well-spelled architectures can be compiled for, the catalog says.
absl::Status CheckArchitecture(const Target& target) {
  const auto all_of = [](std::string_view text, auto predicate) {
    return !text.empty() && std::all_of(text.begin(), text.end(), predicate);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_hex_digit = [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  const std::string_view architecture = target.architecture;
  std::string_view digits = architecture;
  // A suffix names one architecture or family: 90a, 100f.
  if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.remove_suffix(1);
  if (target.backend == "cuda" && !all_of(digits, is_digit)) {
    return InvalidArgument(
        "architecture '{}' is not one of CUDA's; write the digits of the compute capability, such "
        "as cuda:90, or cuda:90a for PTX and CUDA C++, without sm_ or compute_",
        architecture);
  }
  if (target.backend == "hip" && (architecture.substr(0, 3) != "gfx" || architecture.size() < 6 ||
                                  !all_of(architecture.substr(3), is_hex_digit))) {
    return InvalidArgument(
        "architecture '{}' is not one of HIP's; write its name, such as hip:gfx942", architecture);
  }
  if (target.backend == "spirv" &&
      (architecture.size() != 3 || architecture[1] != '.' ||
       !all_of(architecture.substr(0, 1), is_digit) || !all_of(architecture.substr(2), is_digit))) {
    return InvalidArgument(
        "architecture '{}' is no version of SPIR-V; write the newest that the module may have, "
        "such "
        "as spirv:1.2",
        architecture);
  }
  return absl::OkStatus();
}

// Every wanted stage once, in the order given.
absl::Status CanonicalizeStages(const Toolchain& toolchain, const BackendDescription& backend,
                                const CompileRequest& request, std::vector<std::string>& stages) {
  const SourceKind kind = request.source.kind;
  const std::vector<std::string> known = backend.StagesOf(kind, request.options);
  std::vector<std::string> wanted;
  for (std::string& stage : stages) {
    if (std::count(known.begin(), known.end(), stage) == 0) {
      return InvalidArgument("unknown stage '{}' for the {} backend of {}; from {} it has {}",
                             stage, backend.backend, toolchain.Name(), SourceKindName(kind),
                             fmt::join(known, ", "));
    }
    if (std::count(wanted.begin(), wanted.end(), stage) == 0) wanted.push_back(std::move(stage));
  }
  stages = std::move(wanted);
  return absl::OkStatus();
}

// Their order decides nothing, so it is not to decide the key.
absl::Status CanonicalizeHeaders(std::vector<SourceHeader>& headers) {
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(headers.begin(), headers.end(), by_name);
  const auto twice =
      std::adjacent_find(headers.begin(), headers.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice == headers.end()) return absl::OkStatus();
  return InvalidArgument("header '{}' is given twice", twice->name);
}

}  // namespace

absl::Status RequestResolver::CheckBackend(const Target& target) const {
  // Known even where no toolchain for them is here: then the catalog says so.
  constexpr std::string_view kKnown[] = {"cuda", "hip", "spirv"};
  const bool is_known = std::count(std::begin(kKnown), std::end(kKnown), target.backend) != 0;
  if (is_known) return CheckArchitecture(target);
  std::set<std::string> known(std::begin(kKnown), std::end(kKnown));
  for (const auto& toolchain : catalog_.List()) {
    for (const auto& backend : toolchain->backends) known.insert(backend.backend);
  }
  if (known.count(target.backend) != 0) return absl::OkStatus();
  return InvalidArgument("unknown backend '{}'; those known are {}", target.backend,
                         fmt::join(known, ", "));
}

absl::Status RequestResolver::ChoosePtxas(CompileRequest& request, CompileJob& job) const {
  if (request.ptxas.empty()) return absl::OkStatus();
  const SourceKind kind = request.source.kind;
  if (kind == SourceKind::kPtx) {
    if (!request.toolchain.empty()) {
      return InvalidArgument(
          "PTX is compiled by a ptxas alone: name it as the toolchain or as the ptxas, not as "
          "both");
    }
    request.toolchain = std::exchange(request.ptxas, "");
    return absl::OkStatus();
  }
  if (kind == SourceKind::kCudaCxx || kind == SourceKind::kOpenCl ||
      request.target.backend != "cuda") {
    return InvalidArgument("a ptxas is named, but {} for {} is not assembled by one; leave it out",
                           SourceKindName(kind), request.target.ToString());
  }
  absl::StatusOr<std::shared_ptr<const Toolchain>> found =
      catalog_.Find(request.ptxas, SourceKind::kPtx, request.target);
  if (!found.ok()) return Annotate(found.status(), "the ptxas");
  job.ptxas = *std::move(found);
  request.ptxas = job.ptxas->fingerprint.Hex();
  return absl::OkStatus();
}

absl::StatusOr<CompileJobPtr> RequestResolver::Resolve(CompileRequest request) const {
  KILN_RETURN_IF_ERROR(CheckShape(request));
  KILN_RETURN_IF_ERROR(CheckBackend(request.target));
  auto job = std::make_shared<CompileJob>();
  KILN_RETURN_IF_ERROR(ChoosePtxas(request, *job));
  KILN_RETURN_IF_ERROR(CanonicalizeHeaders(request.headers));
  KILN_ASSIGN_OR_RETURN(job->toolchain,
                        catalog_.Find(request.toolchain, request.source.kind, request.target));
  const BackendDescription* backend = job->toolchain->FindBackend(request.target.backend);
  if (backend == nullptr) {
    return Internal("{} was chosen for {} and has no such backend", job->toolchain->Name(),
                    request.target.ToString());
  }
  KILN_RETURN_IF_ERROR(CanonicalizeOptions(*job->toolchain, *backend, request));
  KILN_RETURN_IF_ERROR(CanonicalizeStages(*job->toolchain, *backend, request, request.stages));
  job->key = CompileKey(request, job->toolchain->fingerprint);
  job->request = std::move(request);
  return CompileJobPtr(std::move(job));
}

}  // namespace kiln
