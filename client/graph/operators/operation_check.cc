#include "client/graph/operators/operation_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "client/graph/operators/op_table.h"

namespace kiln::graph {
namespace {

template <typename... Arguments>
absl::Status OperationError(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

std::string ArityText(int min, int max) {
  if (min == max) return fmt::format("{}", min);
  return max >= kAnyNumber ? fmt::format("at least {}", min) : fmt::format("{} to {}", min, max);
}

absl::Status CheckCounts(const Operation& operation, const Operator& op) {
  for (const auto& [operands, what, min, max] :
       {std::tuple(&operation.inputs, "inputs", op.inputs_min, op.inputs_max),
        std::tuple(&operation.outputs, "outputs", op.outputs_min, op.outputs_max)}) {
    const auto count = static_cast<int>(operands->size());
    if (count < min || count > max) {
      return OperationError("it has {} {}; {} takes {}", count, what, op.name, ArityText(min, max));
    }
  }
  for (int i = 0; i < op.inputs_min; ++i) {
    if (operation.inputs[static_cast<size_t>(i)] == kOmitted) {
      return OperationError("input {} is left out; {} needs it", i, op.name);
    }
  }
  return absl::OkStatus();
}

bool FitsKind(const Attribute& attribute, AttributeFacts::Kind kind) {
  using Kind = AttributeFacts::Kind;
  switch (kind) {
    case Kind::kInt:
      return std::holds_alternative<int64_t>(attribute);
    case Kind::kFloat:
      return std::holds_alternative<double>(attribute) ||
             std::holds_alternative<int64_t>(attribute);
    case Kind::kString:
      return std::holds_alternative<std::string>(attribute);
    case Kind::kDType: {
      const auto* const name = std::get_if<std::string>(&attribute);
      return name != nullptr && ParseDType(*name).has_value();
    }
    case Kind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(attribute);
    case Kind::kFloats:
      return std::holds_alternative<std::vector<double>>(attribute) ||
             std::holds_alternative<std::vector<int64_t>>(attribute);
  }
  return false;
}

absl::Status CheckAttributes(const Operation& operation, const Operator& op) {
  for (const auto& [name, attribute] : operation.attributes) {
    const auto facts = std::ranges::find(op.attributes, name, &AttributeFacts::name);
    if (facts == op.attributes.end()) {
      return OperationError("{} has no attribute \"{:.100}\"", op.name, name);
    }
    if (!FitsKind(attribute, facts->kind)) {
      return OperationError("attribute {} is of another type", name);
    }
  }
  for (const AttributeFacts& facts : op.attributes) {
    if (facts.is_required && !operation.attributes.contains(facts.name)) {
      return OperationError("attribute {} is missing", facts.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckForm(const Operation& operation) {
  const Operator* const op = FindOperator(operation.name);
  if (op == nullptr) {
    return OperationError("there is no operator {:.100}{}", operation.name,
                          DidYouMeanOperator(operation.name));
  }
  absl::Status status = CheckCounts(operation, *op);
  if (status.ok()) status = CheckAttributes(operation, *op);
  return status;
}

absl::Status CheckOperation(const Segment& segment, const Operation& operation, int number) {
  const bool is_kept = !operation.kept_because.empty();
  if (!is_kept && FindOperator(operation.name) == nullptr) {
    return OperationError("operation {}: {}", number, std::string(CheckForm(operation).message()));
  }
  const std::string name = fmt::format("operation {} ({})", number, operation.name);
  const absl::Status form = is_kept ? absl::OkStatus() : CheckForm(operation);
  if (!form.ok()) return OperationError("{}: {}", name, std::string(form.message()));
  for (const std::vector<int>* operands : {&operation.inputs, &operation.outputs}) {
    for (const int number_of_value : *operands) {
      if (number_of_value == kOmitted) continue;
      if (number_of_value < 0 || number_of_value >= static_cast<int>(segment.values.size())) {
        return OperationError("{}: no value has the number {}", name, number_of_value);
      }
      const Value& value = segment.values[static_cast<size_t>(number_of_value)];
      if (value.is_opaque && !is_kept) {
        return OperationError("{}: type or shape of value {} is not known", name, value.name);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::graph
