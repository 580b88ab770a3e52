#include "client/cli/graph/next_kernels.h"

#include <fmt/format.h>

namespace kiln::cli {
namespace {

constexpr std::string_view kWhy = "the compile failed";

std::vector<size_t> KernelsOfGroup(const graph::Segment& segment, TargetPlan& plan, size_t number,
                                   const std::string& name, std::ostream& err) {
  std::vector<size_t> next;
  const size_t before = plan.kernels.size();
  const absl::Status status = graph::SeparateGroup(segment, plan.plan, plan.kernels, number,
                                                   plan.config, plan.plan_config, kWhy);
  if (!status.ok()) {
    err << fmt::format("kiln: {}: it failed, and its sections are the engine's: {}\n", name,
                       std::string(status.message()));
    return next;
  }
  err << fmt::format("kiln: {}: it failed, a kernel for each section is next\n", name);
  for (size_t i = before; i < plan.kernels.size(); ++i) next.push_back(i);
  return next;
}

}  // namespace

std::vector<size_t> KernelsInPlaceOf(const graph::Segment& segment, TargetPlan& plan, size_t number,
                                     const std::string& name, std::ostream& err) {
  graph::PlannedKernel& kernel = plan.kernels[number];
  if (kernel.group >= 0) return KernelsOfGroup(segment, plan, number, name, err);
  const std::string_view before = graph::NameOf(kernel.compiler);
  const absl::Status status = graph::UseNextCompiler(kernel, plan.config, kWhy);
  if (status.ok()) {
    err << fmt::format("kiln: {}: {} failed, {} is next\n", name, before,
                       graph::NameOf(kernel.compiler));
    return {number};
  }
  if (!kernel.split.empty()) {
    kernel.is_dropped = true;
    err << fmt::format(
        "kiln: {}: {} failed and no compiler is left: the kernel of the whole range does its "
        "work\n",
        name, before);
    return {};
  }
  graph::GiveToEngine(plan.plan, {{kernel.section, std::string(status.message())}});
  err << fmt::format("kiln: {}: {} failed and no compiler is left: its section is the engine's\n",
                     name, before);
  return {};
}

}  // namespace kiln::cli
