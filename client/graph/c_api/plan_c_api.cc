// The part of kiln_graph.h that plans.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/graph/c_api/c_edge.h"
#include "client/graph/compile/kernel_plans.h"
#include "storage/base/status.h"

using namespace kiln::graph;  // NOLINT: this file is their interface

namespace {

std::vector<std::string> Listed(const char* names) {
  if (names == nullptr) return {};
  return absl::StrSplit(names, ',', absl::SkipWhitespace());
}

absl::StatusOr<Compiler> CompilerOf(std::string_view name) {
  const auto compiler = ParseCompiler(name);
  if (compiler) return *compiler;
  return absl::InvalidArgumentError(
      fmt::format("there is no compiler \"{:.100}\": it is ptx, cuda, triton or opencl", name));
}

absl::StatusOr<PlanConfig> PlanConfigOf(const kiln_graph_plan_options& options) {
  PlanConfig config;
  config.fuses = options.no_fusion == 0;
  config.keeps_small_sections = options.keeps_small_sections != 0;
  config.splits_ranges = options.no_splits == 0;
  config.gives_views = options.takes_views != 0;
  for (const std::string& name : Listed(options.off)) {
    const auto type = ParseSectionType(name);
    if (!type) {
      return absl::InvalidArgumentError(fmt::format(
          "there are no sections of type \"{:.100}\", but of {}", name, SectionTypeNames()));
    }
    config.off.push_back(*type);
  }
  if (options.barriers != nullptr) {
    const auto barriers = ParseGridBarriers(options.barriers);
    if (!barriers) {
      return absl::InvalidArgumentError(
          fmt::format("barriers \"{:.100}\" are none of score, always, never", options.barriers));
    }
    config.barriers = *barriers;
  }
  return config;
}

absl::StatusOr<CompileConfig> CompileConfigOf(const kiln_graph_plan_options& options,
                                              const char* target) {
  if (target == nullptr) return absl::InvalidArgumentError("a plan needs a target");
  CompileConfig config{.target = target, .fast_math = options.fast_math != 0};
  for (const std::string& name : Listed(options.compilers)) {
    KILN_ASSIGN_OR_RETURN(const auto compiler, CompilerOf(name));
    config.available.push_back(compiler);
  }
  if (options.forced != nullptr) {
    KILN_ASSIGN_OR_RETURN(config.forced, CompilerOf(options.forced));
  }
  return config;
}

ChoiceLog LogOf(const kiln_graph_plan_options& options) {
  if (options.log == nullptr) return nullptr;
  return [log = options.log, data = options.log_data](const std::string& line) {
    log(data, line.c_str());
  };
}

const char* KindOf(Language language) {
  switch (language) {
    case Language::kTritonIr:
      return "ttir";
    case Language::kCuda:
      return "cuda";
    case Language::kPtx:
      return "ptx";
    case Language::kOpenCl:
      return "opencl";
  }
  return "";
}

// As docs/manifest.md has it.
std::string RequestLine(const PlannedKernel& kernel, const std::string& target) {
  nlohmann::json line{{"name", kernel.kernel.entry},
                      {"kind", KindOf(kernel.kernel.language)},
                      {"target", target},
                      {"source", kernel.kernel.text}};
  if (kernel.num_warps > 0) line["options"] = {{"num_warps", kernel.num_warps}};
  return line.dump();
}

std::string RequestLines(const KernelPlan& plan) {
  std::string lines;
  for (size_t i = 0; i < plan.kernels().size(); ++i) {
    if (plan.StepOf(static_cast<int>(i)) < 0) continue;
    lines += RequestLine(plan.kernels()[i], plan.target()) + "\n";
  }
  return lines;
}

absl::Status CheckPlans(const kiln_graph_plan* const* plans, uint32_t count) {
  if (count == 0) return absl::InvalidArgumentError("there are no plans");
  if (std::count(plans, plans + count, nullptr) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("one of the plans is NULL");
}

thread_local std::vector<std::string> last_refusals;  // of kiln_graph_plans_open, by target

// Texts of the plan's views, made when they are first asked for.
const std::vector<kiln_graph_plan::View>& ViewsOf(kiln_graph_plan& plan) {
  const std::vector<Symbol>& symbols = plan.plan.segment().symbols;
  if (!plan.views.empty()) return plan.views;
  for (const OutputView& view : plan.plan.plan().views) {
    auto& texts = plan.views.emplace_back();
    texts.offset = view.view.offset.ToString(symbols);
    for (const Size& stride : view.view.strides) texts.strides.push_back(stride.ToString(symbols));
    for (const std::string& stride : texts.strides) texts.texts.push_back(stride.c_str());
  }
  return plan.views;
}

absl::StatusOr<const MemoryLayout*> LayoutOf(kiln_graph_plan& plan) {
  if (!plan.layout) {
    KILN_ASSIGN_OR_RETURN(auto layout, MemoryLayout::Make(plan.plan));
    plan.layout = std::move(layout);
  }
  return &*plan.layout;
}

}  // namespace

extern "C" {

kiln_graph_code kiln_graph_plan_open(const kiln_graph_segment* segment,
                                     const kiln_graph_plan_options* options,
                                     kiln_graph_plan** plan) {
  return Guarded({segment, options, plan}, [&]() -> absl::Status {
    kiln_graph_plan_options known{};
    KILN_RETURN_IF_ERROR(Read(options, known));
    KILN_ASSIGN_OR_RETURN(auto plan_config, PlanConfigOf(known));
    KILN_ASSIGN_OR_RETURN(auto compile_config, CompileConfigOf(known, known.target));
    KILN_ASSIGN_OR_RETURN(auto made, KernelPlan::Make(segment->segment, std::move(plan_config),
                                                      std::move(compile_config), LogOf(known)));
    *plan = new kiln_graph_plan{.plan = std::move(made)};
    return absl::OkStatus();
  });
}

void kiln_graph_plan_close(kiln_graph_plan* plan) { delete plan; }

kiln_graph_code kiln_graph_plan_get_explanation(kiln_graph_plan* plan, const char** text) {
  return Guarded({plan, text}, [&] {
    if (plan->explanation.empty()) plan->explanation = plan->plan.Explanation();
    *text = plan->explanation.c_str();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_plan_get_key(kiln_graph_plan* plan, const char** key) {
  return Guarded({plan, key}, [&] {
    if (plan->key.empty()) plan->key = plan->plan.Key();
    *key = plan->key.c_str();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_plan_get_info(kiln_graph_plan* plan, kiln_graph_plan_info* info) {
  return Guarded({plan, info}, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto layout, LayoutOf(*plan));
    return Write({.size = 0,
                  .steps = static_cast<uint32_t>(plan->plan.steps().size()),
                  .kernels = static_cast<uint32_t>(plan->plan.kernels().size()),
                  .buffers = static_cast<uint32_t>(layout->buffers().size()),
                  .views = static_cast<uint32_t>(plan->plan.plan().views.size()),
                  .reserved = 0},
                 info);
  });
}

kiln_graph_code kiln_graph_plan_get_step(kiln_graph_plan* plan, uint32_t number,
                                         kiln_graph_step* step) {
  return Guarded({plan, step}, [&]() -> absl::Status {
    const auto& steps = plan->plan.steps();
    KILN_RETURN_IF_ERROR(CheckNumber(number, steps.size(), "steps"));
    const KernelStep& of = steps[number];
    kiln_graph_step known{};
    known.is_engines = of.is_engines ? 1 : 0;
    known.operation = of.operation;
    known.first_kernel = static_cast<uint32_t>(of.first_kernel);
    known.kernel_count = static_cast<uint32_t>(of.kernels);
    known.reason = of.reason.c_str();
    return Write(known, step);
  });
}

kiln_graph_code kiln_graph_plan_get_kernel(kiln_graph_plan* plan, uint32_t number,
                                           kiln_graph_kernel* kernel) {
  return Guarded({plan, kernel}, [&]() -> absl::Status {
    const auto& kernels = plan->plan.kernels();
    KILN_RETURN_IF_ERROR(CheckNumber(number, kernels.size(), "kernels"));
    const PlannedKernel& of = kernels[number];
    kiln_graph_kernel known{};
    known.num_warps = static_cast<uint32_t>(of.num_warps);
    known.kind = KindOf(of.kernel.language);
    known.target = plan->plan.target().c_str();
    known.entry = of.kernel.entry.c_str();
    known.text = of.kernel.text.c_str();
    known.text_bytes = of.kernel.text.size();
    known.threads = static_cast<uint32_t>(of.kernel.threads);
    known.step = plan->plan.StepOf(static_cast<int>(number));
    known.why = of.why.c_str();
    known.split = of.split.c_str();
    return Write(known, kernel);
  });
}

kiln_graph_code kiln_graph_plan_write_manifest(kiln_graph_plan* plan, const char* path) {
  return kiln_graph_plans_write_manifest(&plan, 1, path);
}

kiln_graph_code kiln_graph_plans_open(const kiln_graph_segment* segment,
                                      const kiln_graph_plan_options* options,
                                      const char* const* targets, uint32_t target_count,
                                      kiln_graph_plan** plans, const char** refusals) {
  return Guarded({segment, options, targets, plans}, [&]() -> absl::Status {
    kiln_graph_plan_options known{};
    KILN_RETURN_IF_ERROR(Read(options, known));
    if (known.target != nullptr) {
      return absl::InvalidArgumentError("the options name a target besides those of the call");
    }
    KILN_ASSIGN_OR_RETURN(auto plan_config, PlanConfigOf(known));
    std::vector<CompileConfig> configs;
    for (const char* target : std::span(targets, target_count)) {
      KILN_ASSIGN_OR_RETURN(configs.emplace_back(), CompileConfigOf(known, target));
    }
    KILN_ASSIGN_OR_RETURN(auto made, KernelPlans::Make(segment->segment, std::move(plan_config),
                                                       configs, LogOf(known)));
    std::map<std::string, std::unique_ptr<kiln_graph_plan>> opened;
    for (KernelPlan& plan : made.plans()) {
      std::string target = plan.target();
      opened[std::move(target)] =
          std::make_unique<kiln_graph_plan>(kiln_graph_plan{.plan = std::move(plan)});
    }
    last_refusals.assign(target_count, "");
    for (const KernelPlans::Refusal& refusal : made.refusals()) {
      const auto place = std::ranges::find(configs, refusal.target, &CompileConfig::target);
      last_refusals[static_cast<size_t>(place - configs.begin())] =
          std::string(refusal.why.message());
    }
    for (uint32_t i = 0; i < target_count; ++i) {
      plans[i] = opened[configs[i].target].release();
      if (refusals != nullptr) refusals[i] = last_refusals[i].c_str();
    }
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_plans_find(kiln_graph_plan* const* plans, uint32_t plan_count,
                                      kiln_launch_runtime* runtime, int32_t device,
                                      uint32_t* number) {
  return Guarded({plans, runtime, number}, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPlans(plans, plan_count));
    kiln_launch_device facts{};
    facts.size = sizeof facts;
    if (const auto code = kiln_launch_get_device(runtime, device, &facts)) {
      return absl::Status(static_cast<absl::StatusCode>(code), kiln_launch_error());
    }
    std::vector<std::string> targets;
    for (const kiln_graph_plan* plan : std::span(plans, plan_count)) {
      targets.push_back(plan->plan.target());
    }
    const auto found = FindTarget(targets, facts.architecture);
    if (!found.ok()) {
      return absl::NotFoundError(fmt::format("device {} ({}): {}", facts.ordinal, facts.name,
                                             std::string(found.status().message())));
    }
    *number = static_cast<uint32_t>(*found);
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_plans_write_manifest(kiln_graph_plan* const* plans, uint32_t plan_count,
                                                const char* path) {
  return Guarded({plans, path}, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPlans(plans, plan_count));
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    for (const kiln_graph_plan* plan : std::span(plans, plan_count)) {
      file << RequestLines(plan->plan);
    }
    file.close();
    if (!file.fail()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{}: it cannot be written", path));
  });
}

kiln_graph_code kiln_graph_plan_use_next_compiler(kiln_graph_plan* plan, uint32_t kernel,
                                                  const char* why) {
  return Guarded({plan, why}, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckNumber(kernel, plan->plan.kernels().size(), "kernels"));
    plan->layout.reset();
    plan->views.clear();
    plan->explanation.clear();
    return plan->plan.UseNextCompiler(static_cast<int>(kernel), why);
  });
}

kiln_graph_code kiln_graph_plan_get_view(kiln_graph_plan* plan, uint32_t number,
                                         kiln_graph_view* view) {
  return Guarded({plan, view}, [&]() -> absl::Status {
    const auto& views = plan->plan.plan().views;
    absl::Status status = CheckNumber(number, views.size(), "views");
    if (!status.ok()) return status;
    const kiln_graph_plan::View& texts = ViewsOf(*plan)[number];
    kiln_graph_view known{};
    known.value = views[number].value;
    known.base = views[number].base;
    known.rank = static_cast<uint32_t>(texts.texts.size());
    known.offset = texts.offset.c_str();
    known.strides = texts.texts.data();
    return Write(known, view);
  });
}

kiln_graph_code kiln_graph_plan_get_buffer(kiln_graph_plan* plan, uint32_t number,
                                           kiln_graph_buffer* buffer) {
  return Guarded({plan, buffer}, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto layout, LayoutOf(*plan));
    KILN_RETURN_IF_ERROR(CheckNumber(number, layout->buffers().size(), "buffers"));
    const PlanBuffer& of = layout->buffers()[number];
    const Value& value = plan->plan.segment().values[static_cast<size_t>(of.value)];
    kiln_graph_buffer known{};
    known.value = of.value;
    known.role = RoleOf(value);
    known.is_external = of.is_external ? 1 : 0;
    known.is_written = of.is_written ? 1 : 0;
    known.alignment = static_cast<uint32_t>(of.alignment);
    known.name = value.name.c_str();
    known.type = FactsOf(value.type).name.data();
    return Write(known, buffer);
  });
}

}  // extern "C"
