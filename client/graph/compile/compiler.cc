#include "client/graph/compile/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace kiln::graph {
namespace {

struct CompilerFacts {
  Compiler compiler;
  std::string_view name;
  std::string_view backends;
  int capability_min;  // of CUDA
};

constexpr std::array<CompilerFacts, 4> kCompilers = {{
    {Compiler::kPtx, "ptx", "cuda", 80},  // the templates use instructions of sm_80
    {Compiler::kCuda, "cuda", "cuda", 0},
    {Compiler::kTriton, "triton", "cuda hip", 0},
    {Compiler::kOpenCl, "opencl", "spirv", 0},
}};

struct BackendFacts {
  std::string_view name;
  std::string_view example;
};

constexpr std::array<BackendFacts, 3> kBackends = {
    {{"cuda", "cuda:90"}, {"hip", "hip:gfx942"}, {"spirv", "spirv:1.2"}}};

// "cuda:90 (ptx, cuda, triton), …".
std::string ExistingTargets() {
  std::string text;
  for (const BackendFacts& backend : kBackends) {
    std::vector<Compiler> compilers;
    for (const CompilerFacts& facts : kCompilers) {
      if (facts.backends.find(backend.name) != std::string_view::npos) {
        compilers.push_back(facts.compiler);
      }
    }
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", backend.example, NamesOf(compilers));
  }
  return text;
}

absl::Status NoTarget(std::string_view target) {
  return absl::InvalidArgumentError(
      fmt::format("no compiler makes code for target \"{:.100}\"; targets are written as {}",
                  target, ExistingTargets()));
}

// Digits at the beginning; 0 where there are none.
int LeadingNumber(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string_view NameOf(Compiler compiler) {
  return kCompilers[static_cast<size_t>(compiler)].name;
}

std::optional<Compiler> ParseCompiler(std::string_view name) {
  const auto found = std::ranges::find(kCompilers, name, &CompilerFacts::name);
  return found == kCompilers.end() ? std::nullopt : std::optional(found->compiler);
}

std::string NamesOf(const std::vector<Compiler>& compilers) {
  std::string names;
  for (const Compiler compiler : compilers) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", NameOf(compiler));
  }
  return names;
}

absl::StatusOr<CompileTarget> ParseTarget(std::string_view target) {
  const size_t colon = target.find(':');
  CompileTarget parsed;
  parsed.backend = target.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? "" : target.substr(colon + 1);
  const size_t second = rest.find(':');
  parsed.architecture = rest.substr(0, second);
  const bool is_known = std::ranges::count(kBackends, parsed.backend, &BackendFacts::name) > 0;
  if (!is_known || parsed.architecture.empty()) return NoTarget(target);
  if (parsed.backend == "cuda") {
    parsed.capability = LeadingNumber(parsed.architecture);
    if (parsed.capability == 0) return NoTarget(target);
  }
  if (parsed.backend == "hip") {
    if (!parsed.architecture.starts_with("gfx")) return NoTarget(target);
    parsed.warp_size = parsed.architecture.starts_with("gfx9") ? 64 : 32;
  }
  if (second != std::string_view::npos) {
    parsed.warp_size = LeadingNumber(rest.substr(second + 1));
    if (parsed.warp_size == 0) return NoTarget(target);
  }
  return parsed;
}

std::vector<Compiler> CompilersFor(const CompileTarget& target) {
  std::vector<Compiler> compilers;
  for (const CompilerFacts& facts : kCompilers) {
    const bool has_backend = facts.backends.find(target.backend) != std::string_view::npos;
    const bool is_too_old = target.backend == "cuda" && target.capability < facts.capability_min;
    if (has_backend && !is_too_old) compilers.push_back(facts.compiler);
  }
  return compilers;
}

}  // namespace kiln::graph
