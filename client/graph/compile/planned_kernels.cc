#include "client/graph/compile/planned_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "client/graph/compile/compiler_choice.h"
#include "client/graph/compile/loop_buffers.h"
#include "client/graph/compile/program_kernels.h"
#include "client/graph/compile/range_splits.h"
#include "client/graph/emit/cuda.h"
#include "client/graph/emit/opencl.h"
#include "client/graph/emit/ptx.h"
#include "client/graph/emit/triton/triton_emitter.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<EmittedKernel> EmitBy(Compiler compiler, const LoopProgram& program,
                                     const EmitOptions& options) {
  switch (compiler) {
    case Compiler::kPtx:
      return EmitPtx(program, options);
    case Compiler::kCuda:
      return EmitCuda(program, options);
    case Compiler::kTriton:
      return EmitTriton(program, options);
    case Compiler::kOpenCl:
      return EmitOpenCl(program, options);
  }
  return absl::InternalError("no such compiler");
}

// Takes the first of `left` that can write the program. `why_not` is why those before could not.
absl::Status TakeFirst(PlannedKernel& kernel, const CompileConfig& config,
                       std::vector<CompilerChoice> left, std::string why_not) {
  KILN_ASSIGN_OR_RETURN(const auto target, ParseTarget(config.target));
  const EmitOptions options{.fast_math = config.fast_math,
                            .backend = target.backend,
                            .architecture = target.architecture};
  while (!left.empty()) {
    const CompilerChoice choice = left.front();
    left.erase(left.begin());
    auto emitted = EmitBy(choice.compiler, kernel.program, options);
    if (!emitted.ok() && !absl::IsUnimplemented(emitted.status())) return emitted.status();
    if (!emitted.ok()) {
      why_not += (why_not.empty() ? "" : "; ") + std::string(emitted.status().message());
      continue;
    }
    kernel.kernel = *std::move(emitted);
    kernel.compiler = choice.compiler;
    const bool is_triton = choice.compiler == Compiler::kTriton;
    kernel.num_warps = is_triton ? std::max(kernel.kernel.threads / target.warp_size, 1) : 0;
    kernel.why = why_not.empty() ? std::string(choice.why)
                                 : fmt::format("{}, since others cannot: {}", choice.why, why_not);
    kernel.left.clear();
    for (const CompilerChoice& each : left) kernel.left.push_back(each.compiler);
    return absl::OkStatus();
  }
  return absl::NotFoundError(why_not);
}

// For parts of the ranges, where another text comes of it. Symbols have the segment's names.
std::vector<PlannedKernel> VariantsOf(const PlannedKernel& whole, const CompileConfig& config,
                                      const CostModel& model, const std::vector<Symbol>& symbols) {
  LoopProgram named = whole.program;
  named.symbols = symbols;
  std::vector<PlannedKernel> variants;
  for (RangeSplit& split : SplitsOf(named, model)) {
    PlannedKernel variant = whole;
    variant.program.symbols = std::move(split.symbols);
    NameByPlace(variant.program.symbols);
    variant.split = std::move(split.why);
    auto choices = ChoicesFor(variant.program, config);
    if (!choices.ok() || !TakeFirst(variant, config, *std::move(choices), "").ok()) continue;
    if (variant.kernel.text != whole.kernel.text) variants.push_back(std::move(variant));
  }
  return variants;
}

// The last one is that of the whole range, behind the variants.
absl::StatusOr<std::vector<PlannedKernel>> KernelsOfProgram(LoopProgram program,
                                                            std::vector<int> values,
                                                            const CompileConfig& config,
                                                            const PlanConfig& plan_config,
                                                            const std::vector<Symbol>& symbols) {
  KILN_ASSIGN_OR_RETURN(auto choices, ChoicesFor(program, config));
  if (choices.empty()) {
    return absl::NotFoundError(
        fmt::format("{} cannot write a program with a loop", NamesOf(config.available)));
  }
  PlannedKernel kernel;
  kernel.buffers = std::move(values);
  kernel.program = std::move(program);
  KILN_RETURN_IF_ERROR(TakeFirst(kernel, config, std::move(choices), ""));
  std::vector<PlannedKernel> kernels;
  if (plan_config.splits_ranges) {
    kernels = VariantsOf(kernel, config, plan_config.model, symbols);
  }
  kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace

absl::Status CheckParameters(size_t parameters) {
  if (parameters <= kParametersMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("a kernel of it has {} parameters, {} are possible", parameters, kParametersMax));
}

absl::StatusOr<std::vector<PlannedKernel>> KernelsOfPrograms(std::vector<LoopProgram> programs,
                                                             const CompileConfig& config,
                                                             const PlanConfig& plan_config,
                                                             const std::vector<Symbol>& symbols) {
  std::vector<PlannedKernel> kernels;
  for (LoopProgram& program : programs) {
    DropUnusedBuffers(program);
    std::vector<int> values = TakeValues(program);
    KILN_RETURN_IF_ERROR(CheckParameters(values.size() + program.symbols.size()));
    KILN_ASSIGN_OR_RETURN(auto those, KernelsOfProgram(std::move(program), std::move(values),
                                                       config, plan_config, symbols));
    std::ranges::move(those, std::back_inserter(kernels));
  }
  return kernels;
}

std::string Explain(const PlannedKernel& kernel) {
  std::string text = fmt::format("section {}: kernel {} by {}: {}", kernel.section,
                                 kernel.kernel.entry, NameOf(kernel.compiler), kernel.why);
  if (!kernel.split.empty()) text += fmt::format("; for {}", kernel.split);
  if (!kernel.left.empty()) text += fmt::format("; then {}", NamesOf(kernel.left));
  return text + '\n';
}

std::string Explain(const std::vector<PlannedKernel>& kernels) {
  std::string text;
  for (const PlannedKernel& kernel : kernels) text += Explain(kernel);
  return text;
}

absl::Status UseNextCompiler(PlannedKernel& kernel, const CompileConfig& config,
                             std::string_view why) {
  KILN_ASSIGN_OR_RETURN(auto choices, ChoicesFor(kernel.program, config));
  std::erase_if(choices, [&](const CompilerChoice& choice) {
    return std::ranges::count(kernel.left, choice.compiler) == 0;
  });
  return TakeFirst(kernel, config, std::move(choices),
                   fmt::format("{}: {}", NameOf(kernel.compiler), why));
}

}  // namespace kiln::graph
