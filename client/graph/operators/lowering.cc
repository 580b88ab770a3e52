#include "client/graph/operators/lowering.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/operators/op_table.h"
#include "client/graph/operators/rules.h"
#include "client/graph/operators/section_elements.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

constexpr std::array kFiles = {
    ConstantRules,          QuantizationRules, ViewRules,        MovementRules,
    PaddingRules,           IndexingRules,     ReductionRules,   NormalizationRules,
    SkipNormalizationRules, ProductRules,      ConvolutionRules, PoolRules,
    UnfoldingRules,         SamplingRules,     AttentionRules,   LanguageModelRules,
    StatisticRules,         LossRules,         EinsumRules,      ResizeRules};

using RulesByName = std::map<std::string_view, const LoweringRule*>;
const RulesByName& AllRules() {
  static const RulesByName all = [] {
    RulesByName made;
    for (const auto rules : kFiles) {
      for (const NamedRule& named : rules()) made.emplace(named.op, &named.rule);
    }
    return made;
  }();
  return all;
}

absl::Status NotLowered(const Operation& operation) {
  const Operator* op = FindOperator(operation.name);
  if (op != nullptr && !op->why_not.empty()) {
    return absl::UnimplementedError(fmt::format("{}: {}", op->name, op->why_not));
  }
  return absl::UnimplementedError(fmt::format("nothing lowers operator {}", operation.name));
}

// The first input alone; what the others may be differs, and elementwise rules look at all.
absl::Status CheckType(const Segment& segment, const Operation& operation) {
  const Operator& op = *FindOperator(operation.name);
  if (operation.inputs.empty() || operation.inputs[0] == kOmitted) return absl::OkStatus();
  const DType type = segment.values[static_cast<size_t>(operation.inputs[0])].type;
  const bool is_taken = type == DType::kBool ? op.takes_bool
                        : IsFloat(type)      ? op.takes_float
                                             : op.takes_integer;
  if (is_taken || op.parsed) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("{}: type {} is not lowered; cast it", op.name, FactsOf(type).name));
}

}  // namespace

const LoweringRule* FindLoweringRule(std::string_view name) {
  const Operator* known = FindOperator(name);
  if (known == nullptr) return nullptr;
  if (known->parsed) return &kElementwiseRule;
  const auto rule = AllRules().find(known->name);
  return rule == AllRules().end() ? nullptr : rule->second;
}

absl::StatusOr<std::vector<TensorType>> InferOutputs(const Segment& segment,
                                                     const Operation& operation) {
  const LoweringRule* rule = FindLoweringRule(operation.name);
  if (rule == nullptr) return NotLowered(operation);
  KILN_RETURN_IF_ERROR(CheckType(segment, operation));
  if (!operation.outputs.empty() && operation.outputs[0] == kOmitted) {
    return absl::UnimplementedError(
        fmt::format("{}: an operation without its first output is not lowered", operation.name));
  }
  return rule->outputs(segment, operation);
}

absl::StatusOr<std::vector<LoopProgram>> Lower(const Segment& segment, const Operation& operation) {
  const LoweringRule* rule = FindLoweringRule(operation.name);
  if (rule == nullptr) return NotLowered(operation);
  const std::vector<int> inner =
      rule->inner == nullptr ? std::vector<int>() : rule->inner(segment, operation);
  std::vector<LoopProgram> programs;
  for (const int output : operation.outputs) {
    if (output == kOmitted) continue;
    SectionElements elements(segment, {}, fmt::format("output{}", output));
    for (const int input : operation.inputs) elements.AddInput(input);
    KILN_ASSIGN_OR_RETURN(auto program, std::move(elements).Program(operation, output, inner));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace kiln::graph
