#include "client/graph/compile/compiler_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "storage/base/status.h"

namespace kiln::graph {
namespace {

enum class Suits : uint8_t { kWithoutLoop, kWithLoop, kAll };

struct Preference {
  std::string_view backend;
  Suits suits;
  Compiler compiler;
  std::string_view why;
};

// Best first.
constexpr std::array<Preference, 5> kPreferences = {{
    {"cuda", Suits::kWithoutLoop, Compiler::kPtx, "no loop: a PTX template needs ptxas alone"},
    {"cuda", Suits::kAll, Compiler::kTriton, "Triton lays out tiles, reductions and vector loads"},
    {"cuda", Suits::kAll, Compiler::kCuda, "CUDA C++ can express every program"},
    {"hip", Suits::kAll, Compiler::kTriton, "Triton alone makes code for hip"},
    {"spirv", Suits::kAll, Compiler::kOpenCl, "OpenCL C alone makes code for spirv"},
}};

bool HasLoop(const LoopProgram& program) {
  return std::ranges::any_of(program.axes, &Axis::is_inner);
}

}  // namespace

absl::StatusOr<std::vector<Compiler>> UsableCompilers(const CompileConfig& config) {
  KILN_ASSIGN_OR_RETURN(const auto target, ParseTarget(config.target));
  const std::vector<Compiler> suitable = CompilersFor(target);
  if (config.forced) {
    if (std::ranges::count(suitable, *config.forced) > 0) return std::vector{*config.forced};
    return absl::InvalidArgumentError(
        fmt::format("compiler {} makes no code for target {}; there are {}", NameOf(*config.forced),
                    config.target, NamesOf(suitable)));
  }
  if (config.available.empty()) return suitable;
  std::vector<Compiler> usable;
  for (const Compiler compiler : suitable) {
    if (std::ranges::count(config.available, compiler) > 0) usable.push_back(compiler);
  }
  if (!usable.empty()) return usable;
  return absl::InvalidArgumentError(
      fmt::format("none of the compilers that may be used ({}) makes code for target {}; there are "
                  "{}",
                  NamesOf(config.available), config.target, NamesOf(suitable)));
}

bool MultipliesTiles(const CompileConfig& config) {
  const auto usable = UsableCompilers(config);
  return usable.ok() && std::ranges::count(*usable, Compiler::kTriton) > 0;
}

absl::StatusOr<std::vector<CompilerChoice>> ChoicesFor(const LoopProgram& program,
                                                       const CompileConfig& config) {
  KILN_ASSIGN_OR_RETURN(const auto usable, UsableCompilers(config));
  if (config.forced) return std::vector<CompilerChoice>{{*config.forced, "it is forced"}};
  const Suits kind = HasLoop(program) ? Suits::kWithLoop : Suits::kWithoutLoop;
  std::vector<CompilerChoice> choices;
  for (const Preference& preference : kPreferences) {
    const bool suits = preference.suits == Suits::kAll || preference.suits == kind;
    const bool is_for_target = config.target.starts_with(preference.backend);
    if (is_for_target && suits && std::ranges::count(usable, preference.compiler) > 0) {
      choices.push_back({preference.compiler, preference.why});
    }
  }
  return choices;
}

}  // namespace kiln::graph
