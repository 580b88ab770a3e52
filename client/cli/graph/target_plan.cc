#include "client/cli/graph/target_plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "client/cli/output/enum_names.h"
#include "client/cli/requests/request_json.h"
#include "client/graph/compile/kernel_plans.h"
#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/segment/segment_json.h"

namespace kiln::cli {
namespace {

v1::SourceKind KindOf(graph::Compiler compiler) {
  switch (compiler) {
    case graph::Compiler::kPtx:
      return v1::SOURCE_KIND_PTX;
    case graph::Compiler::kCuda:
      return v1::SOURCE_KIND_CUDA_CXX;
    case graph::Compiler::kTriton:
      return v1::SOURCE_KIND_TTIR;
    case graph::Compiler::kOpenCl:
      return v1::SOURCE_KIND_OPENCL;
  }
  return v1::SOURCE_KIND_UNSPECIFIED;
}

bool Compiles(const v1::Toolchain& toolchain, v1::SourceKind kind,
              const graph::CompileTarget& target) {
  return std::ranges::count(toolchain.kinds(), kind) > 0 &&
         std::ranges::any_of(toolchain.backends(), [&](const v1::Backend& backend) {
           return backend.backend() == target.backend &&
                  std::ranges::count(backend.architectures(), target.architecture) > 0;
         });
}

// Divides the compilers that make code for the target by whether a toolchain is there.
absl::Status TakeAvailable(const v1::ListToolchainsResponse& toolchains, TargetPlan& made) {
  graph::CompileConfig& config = made.config;
  KILN_ASSIGN_OR_RETURN(const graph::CompileTarget target, graph::ParseTarget(config.target));
  for (const graph::Compiler compiler : graph::CompilersFor(target)) {
    const bool is_there =
        std::ranges::any_of(toolchains.toolchains(), [&](const v1::Toolchain& toolchain) {
          return Compiles(toolchain, KindOf(compiler), target);
        });
    (is_there ? config.available : made.absent).push_back(compiler);
  }
  const bool lacks_forced = config.forced && std::ranges::count(made.absent, *config.forced) > 0;
  if (!config.available.empty() && !lacks_forced) return absl::OkStatus();
  const std::vector<graph::Compiler> missing =
      lacks_forced ? std::vector{*config.forced} : made.absent;
  return FailedPrecondition(
      "no toolchain of the daemon compiles {} for {}; 'kiln doctor' shows those that are there",
      graph::NamesOf(missing), config.target);
}

// All but the plan and its kernels.
absl::StatusOr<TargetPlan> WithCompilers(const GraphFlags& flags, const std::string& target,
                                         const v1::ListToolchainsResponse* toolchains) {
  TargetPlan made;
  made.config.target = target;
  made.config.fast_math = flags.fast_math;
  if (!flags.compiler.empty()) {
    made.config.forced = graph::ParseCompiler(flags.compiler);
    if (!made.config.forced) {
      return InvalidArgument("--compiler: '{}' is none of ptx, cuda, triton, opencl",
                             flags.compiler);
    }
  }
  // An unknown target is said before what the daemon lacks.
  KILN_RETURN_IF_ERROR(graph::ParseTarget(target).status());
  if (toolchains != nullptr) KILN_RETURN_IF_ERROR(TakeAvailable(*toolchains, made));
  return made;
}

// Takes `mark` and the number behind it off the front of `text`, if they are there.
bool TakeNumber(std::string_view& text, std::string_view mark, int64_t& number) {
  if (!text.starts_with(mark)) return false;
  const char* const end = text.data() + text.size();
  int64_t read = 0;
  const auto [rest, error] = std::from_chars(text.data() + mark.size(), end, read);
  if (error != std::errc() || read < 0) return false;
  number = read;
  text = {rest, end};
  return true;
}

// "batch=8", or "batch=1..64:16%8": 16 is typical, every value is a multiple of 8.
absl::StatusOr<graph::Symbol> ParseDimension(const std::string& text) {
  const size_t equals = text.find('=');
  std::string_view range =
      equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1);
  graph::Symbol symbol{.name = text.substr(0, equals)};
  const bool is_read = TakeNumber(range, "", symbol.min);
  symbol.max = symbol.min;
  TakeNumber(range, "..", symbol.max);
  symbol.typical = symbol.max;
  TakeNumber(range, ":", symbol.typical);
  TakeNumber(range, "%", symbol.multiple_of);
  const bool is_ordered = symbol.min <= symbol.typical && symbol.typical <= symbol.max;
  if (!is_read || !range.empty() || symbol.name.empty() || !is_ordered || symbol.multiple_of < 1) {
    return InvalidArgument(
        "--dimension: '{}' is not written as batch=8, batch=1..64 or batch=1..64:16%8, with the "
        "typical size between the others",
        text);
  }
  return symbol;
}

absl::StatusOr<graph::OnnxOptions> OnnxOptionsOf(const GraphFlags& flags) {
  graph::OnnxOptions options;
  for (const std::string& text : flags.dimensions) {
    KILN_ASSIGN_OR_RETURN(options.dimensions.emplace_back(), ParseDimension(text));
  }
  return options;
}

}  // namespace

absl::StatusOr<graph::Segment> ReadGraph(const std::string& path, const GraphFlags& flags) {
  KILN_RETURN_IF_ERROR(CheckSource(path));
  std::ifstream stream(path, std::ios::binary);
  char first = 0;
  if (!(stream >> first)) return InvalidArgument("it is empty");
  if (first != '{') {
    KILN_ASSIGN_OR_RETURN(const graph::OnnxOptions options, OnnxOptionsOf(flags));
    return graph::ReadOnnx(path, options);
  }
  if (!flags.dimensions.empty()) {
    return InvalidArgument("--dimension is for ONNX models; a segment has ranges of its own");
  }
  stream.seekg(0);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  KILN_ASSIGN_OR_RETURN(graph::Segment segment, graph::ReadSegment(content));
  KILN_RETURN_IF_ERROR(graph::Check(segment));
  return segment;
}

absl::StatusOr<graph::PlanConfig> PlanConfigOf(const GraphFlags& flags) {
  graph::PlanConfig config;
  config.fuses = !flags.no_fusion;
  config.keeps_small_sections = flags.keeps_small;
  config.splits_ranges = !flags.no_splits;
  config.gives_views = flags.takes_views;
  for (const std::string& name : flags.off) {
    const auto type = graph::ParseSectionType(name);
    if (!type) {
      return InvalidArgument("--off: '{}' is no type of sections; there are {}", name,
                             graph::SectionTypeNames());
    }
    config.off.push_back(*type);
  }
  const auto barriers = graph::ParseGridBarriers(flags.barriers);
  if (!barriers) {
    return InvalidArgument("--barriers: '{}' is none of score, always, never", flags.barriers);
  }
  config.barriers = *barriers;
  return config;
}

absl::StatusOr<std::vector<TargetPlan>> PlansFor(const graph::Segment& segment,
                                                 const GraphFlags& flags,
                                                 const v1::ListToolchainsResponse* toolchains) {
  std::vector<TargetPlan> made;
  std::vector<graph::CompileConfig> configs;
  for (const std::string& target : flags.targets) {
    KILN_ASSIGN_OR_RETURN(made.emplace_back(), WithCompilers(flags, target, toolchains));
    configs.push_back(made.back().config);
  }
  if (made.empty()) return made;
  KILN_ASSIGN_OR_RETURN(const graph::PlanConfig plan_config, PlanConfigOf(flags));
  KILN_ASSIGN_OR_RETURN(const auto plans, graph::KernelPlans::Make(segment, plan_config, configs));
  if (!plans.refusals().empty()) return plans.refusals().front().why;
  for (size_t i = 0; i < made.size(); ++i) {
    const graph::KernelPlan& plan = plans.plans()[i];
    made[i].plan_config = plan.plan_config();
    made[i].plan = plan.plan();
    made[i].kernels = plan.kernels();
    made[i].key = plan.Key();
  }
  return made;
}

absl::StatusOr<v1::CompileRequest> RequestOf(const graph::PlannedKernel& kernel,
                                             const std::string& target) {
  v1::CompileRequest request;
  v1::KernelSource& source = *request.mutable_source();
  source.set_kind(KindOf(kernel.compiler));
  source.set_text(kernel.kernel.text);
  source.set_name(kernel.kernel.entry);
  KILN_ASSIGN_OR_RETURN(*request.mutable_target(), ParseTarget(target));
  if (kernel.num_warps > 0) request.mutable_launch()->set_num_warps(kernel.num_warps);
  return request;
}

}  // namespace kiln::cli
