// A plan with the kernels that carry it out on one target: what is compiled, bound and executed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/compile/planned_kernels.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// A section's kernels, to be launched one after the other, variants in place of what they replace
// where the sizes fit; the kernel of a group of sections; or an operation of the engine's.
struct KernelStep {
  bool is_engines = false;
  int operation = 0;        // the (last) section's root, or the engine's operation
  std::string reason = {};  // why it is the engine's
  int first_kernel = 0;
  int kernels = 0;
};

// Receives a line, without its end, for each choice of a compiler, and for what no compiler is left
// for.
using ChoiceLog = std::function<void(const std::string& line)>;

// One thread at a time may change it. Kernels keep their numbers.
class KernelPlan {
 public:
  // INVALID_ARGUMENT: the segment, or what the configuration names. UNIMPLEMENTED: the forced
  // compiler cannot write a kernel.
  // `log` is called here and by UseNextCompiler.
  [[nodiscard]] static absl::StatusOr<KernelPlan> Make(Segment segment, PlanConfig plan_config,
                                                       CompileConfig compile_config,
                                                       ChoiceLog log = nullptr);

  const Segment& segment() const { return segment_; }
  const std::string& target() const { return compile_config_.target; }
  const Plan& plan() const { return plan_; }
  const PlanConfig& plan_config() const { return plan_config_; }
  const CompileConfig& compile_config() const { return compile_config_; }
  const std::vector<PlannedKernel>& kernels() const { return kernels_; }
  const std::vector<KernelStep>& steps() const { return steps_; }
  // -1: the kernel is not needed: its section is the engine's, or it is dropped.
  int StepOf(int kernel) const;
  std::string Key() const { return PlanKey(segment_, plan_config_, compile_config_); }
  // Explain, then a line for each kernel: its compiler, and why.
  std::string Explanation() const;

  // For a kernel whose compile failed. NOT_FOUND: there is no other compiler. A variant is dropped
  // then; otherwise the section is the engine's from now on, a step for each of its operations. A
  // group's kernel is dropped: its sections get kernels behind the others, and steps of their own.
  [[nodiscard]] absl::Status UseNextCompiler(int kernel, std::string_view why);

 private:
  friend class KernelPlans;

  KernelPlan() = default;
  // REQUIRES: `plan` is MakePlan(segment, plan_config).
  [[nodiscard]] static absl::StatusOr<KernelPlan> Of(Segment segment, Plan plan,
                                                     PlanConfig plan_config,
                                                     CompileConfig compile_config, ChoiceLog log);
  void AddSteps();
  // "kernel 3 of section 1, kiln_add_3, by ptx: no loop: ...".
  std::string ChoiceOf(size_t kernel) const;
  void Log(const std::string& line) const;
  void LogChoices(size_t first_kernel) const;

  Segment segment_;
  PlanConfig plan_config_;
  CompileConfig compile_config_;
  ChoiceLog log_;
  Plan plan_;
  std::vector<PlannedKernel> kernels_;
  std::vector<KernelStep> steps_;
  std::vector<int> step_of_section_;  // -1: it is the engine's
};

}  // namespace kiln::graph
