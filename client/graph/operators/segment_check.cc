#include "client/graph/operators/segment_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/graph/operators/lowering.h"
#include "client/graph/operators/operands.h"
#include "client/graph/operators/operation_check.h"
#include "client/graph/segment/limits.h"
#include "client/graph/segment/shape.h"
#include "client/graph/segment/size_text.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

template <typename... Arguments>
absl::Status Invalid(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

class Checking {
 public:
  explicit Checking(const Segment& segment) : segment_(segment) {}

  absl::Status Check() {
    if (segment_.operations.size() > kOperationsMax || segment_.values.size() > kValuesMax ||
        segment_.symbols.size() > kSymbolsMax) {
      return Invalid("a segment has at most {} operations, {} values and {} symbols",
                     kOperationsMax, kValuesMax, kSymbolsMax);
    }
    absl::Status status = CheckSymbols();
    if (status.ok()) status = CheckNames();
    for (const Value& value : segment_.values) {
      if (status.ok()) status = CheckValue(value, segment_.symbols);
    }
    producers_.assign(segment_.values.size(), -1);
    for (size_t number = 0; number < segment_.operations.size() && status.ok(); ++number) {
      status = CheckOperation(static_cast<int>(number));
    }
    if (status.ok()) status = CheckProducers();
    if (status.ok()) status = CheckOrder();
    for (size_t number = 0; number < segment_.operations.size() && status.ok(); ++number) {
      status = CheckOutputs(static_cast<int>(number));
    }
    return status;
  }

 private:
  const Value& ValueAt(int number) const { return segment_.values[static_cast<size_t>(number)]; }
  // "operation 3 (Add)".
  std::string NameOf(int operation) const {
    return fmt::format("operation {} ({})", operation,
                       segment_.operations[static_cast<size_t>(operation)].name);
  }

  absl::Status CheckSymbols() const {
    for (const Symbol& symbol : segment_.symbols) {
      if (!IsSymbolName(symbol.name)) {
        return Invalid("symbol \"{:.100}\": a name has letters, digits and _ alone", symbol.name);
      }
      if (symbol.min < 0 || symbol.min > symbol.max || symbol.multiple_of < 1 ||
          symbol.typical < symbol.min || symbol.typical > symbol.max) {
        return Invalid("symbol {}: its range is not 0 <= min <= typical <= max, multiple_of >= 1",
                       symbol.name);
      }
      if (symbol.max / symbol.multiple_of * symbol.multiple_of < symbol.min) {
        return Invalid("symbol {}: no size from {} to {} is a multiple of {}", symbol.name,
                       symbol.min, symbol.max, symbol.multiple_of);
      }
      if (std::ranges::count(segment_.symbols, symbol.name, &Symbol::name) > 1) {
        return Invalid("symbol {}: another symbol has the same name", symbol.name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckNames() const {
    std::unordered_set<std::string_view> names;
    names.reserve(segment_.values.size());
    for (const Value& value : segment_.values) {
      if (!names.insert(value.name).second) {
        return Invalid("value {}: another value has the same name", value.name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperation(int number) {
    const Operation& operation = segment_.operations[static_cast<size_t>(number)];
    KILN_RETURN_IF_ERROR(graph::CheckOperation(segment_, operation, number));
    for (const int output : operation.outputs) {
      if (output == kOmitted) continue;
      int& producer = producers_[static_cast<size_t>(output)];
      if (producer >= 0) {
        return Invalid("value {}: {} and {} both write it", ValueAt(output).name, NameOf(producer),
                       NameOf(number));
      }
      producer = number;
    }
    return absl::OkStatus();
  }

  absl::Status CheckProducers() const {
    for (size_t i = 0; i < segment_.values.size(); ++i) {
      const Value& value = segment_.values[i];
      if (value.is_input && producers_[i] >= 0) {
        return Invalid("value {}: it is an input, and {} writes it", value.name,
                       NameOf(producers_[i]));
      }
      if (value.is_output && producers_[i] < 0) {
        return Invalid("value {}: it is an output, and no operation writes it", value.name);
      }
    }
    for (size_t number = 0; number < segment_.operations.size(); ++number) {
      for (const int input : segment_.operations[number].inputs) {
        if (input != kOmitted && !ValueAt(input).is_input &&
            producers_[static_cast<size_t>(input)] < 0) {
          return Invalid("{}: value {} is no input, and no operation writes it",
                         NameOf(static_cast<int>(number)), ValueAt(input).name);
        }
      }
    }
    return absl::OkStatus();
  }

  // Each operation once everything that it reads is there.
  absl::Status CheckOrder() const {
    std::vector<std::vector<int>> readers(segment_.operations.size());
    std::vector<int> missing(segment_.operations.size(), 0);
    for (size_t number = 0; number < segment_.operations.size(); ++number) {
      for (const int input : segment_.operations[number].inputs) {
        const int producer = input == kOmitted ? -1 : producers_[static_cast<size_t>(input)];
        if (producer < 0) continue;
        readers[static_cast<size_t>(producer)].push_back(static_cast<int>(number));
        ++missing[number];
      }
    }
    std::vector<int> ready;
    for (size_t number = 0; number < missing.size(); ++number) {
      if (missing[number] == 0) ready.push_back(static_cast<int>(number));
    }
    for (size_t done = 0; done < ready.size(); ++done) {
      for (const int reader : readers[static_cast<size_t>(ready[done])]) {
        if (--missing[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
      }
    }
    const auto stuck = std::ranges::find_if(missing, [](int count) { return count > 0; });
    if (stuck == missing.end()) return absl::OkStatus();
    return Invalid("{}: it needs its own result: the operations form a cycle",
                   NameOf(static_cast<int>(stuck - missing.begin())));
  }

  absl::Status CheckOutputs(int number) const {
    const Operation& operation = segment_.operations[static_cast<size_t>(number)];
    if (!operation.kept_because.empty() || FindLoweringRule(operation.name) == nullptr) {
      return absl::OkStatus();  // the engine's
    }
    const auto given = InferOutputs(segment_, operation);
    if (absl::IsUnimplemented(given.status())) return absl::OkStatus();  // the engine's, too
    if (!given.ok()) {
      return Invalid("{}: {}", NameOf(number), std::string(given.status().message()));
    }
    for (size_t i = 0; i < operation.outputs.size() && i < given->size(); ++i) {
      if (operation.outputs[i] == kOmitted) continue;
      const Value& value = ValueAt(operation.outputs[i]);
      if (value.type != (*given)[i].type) {
        return Invalid("{}: it gives {}, and value {} is {}", NameOf(number),
                       FactsOf((*given)[i].type).name, value.name, FactsOf(value.type).name);
      }
      if (value.shape != (*given)[i].shape) {
        return Invalid("{}: it gives {}, and value {} has the shape {}", NameOf(number),
                       ShapeText((*given)[i].shape, segment_.symbols), value.name,
                       ShapeText(value.shape, segment_.symbols));
      }
    }
    return absl::OkStatus();
  }

  const Segment& segment_;
  std::vector<int> producers_;  // by value, -1: none
};

// Strides reach no element that an address could not, and what is written has strides larger than
// what lies between them, for all sizes of the symbols.
absl::Status CheckStrides(const Value& value, const std::vector<Symbol>& symbols,
                          const std::vector<int64_t>& sizes_max) {
  if (!value.strides) return absl::OkStatus();
  std::vector<std::pair<int64_t, size_t>> axes;  // the largest stride, the dimension
  for (size_t i = 0; i < value.shape.size(); ++i) {
    const auto stride = (*value.strides)[i].Evaluate(sizes_max);
    if (!stride) return Invalid("value {}: a stride overflows", value.name);
    if (!IsAtMost(0, (*value.strides)[i], symbols)) {
      return Invalid("value {}: a stride is negative", value.name);
    }
    if (!IsAtMost(value.shape[i], 1, symbols)) axes.emplace_back(*stride, i);
  }
  if (std::ranges::count(value.shape, Size(0)) > 0) return absl::OkStatus();
  const bool is_written = !value.is_input && !value.is_constant;
  std::ranges::sort(axes);
  Size last = 0;  // element that smaller strides reach
  for (const auto& [largest, i] : axes) {
    const Size& stride = (*value.strides)[i];
    if (is_written && !IsAtMost(last + Size(1), stride, symbols)) {
      return Invalid("value {}: an operation writes it, and its elements may overlap", value.name);
    }
    last += (value.shape[i] - Size(1)) * stride;
    if (!last.IsValid() || !IsAtMost(last, kElementsMax, symbols)) {
      return Invalid("value {}: its strides reach more than {} elements", value.name, kElementsMax);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckValue(const Value& value, const std::vector<Symbol>& symbols) {
  if (value.is_opaque) return absl::OkStatus();
  if (value.shape.size() > kDimensionsMax) {
    return Invalid("value {}: it has more than {} dimensions", value.name, kDimensionsMax);
  }
  if (value.strides && value.strides->size() != value.shape.size()) {
    return Invalid("value {}: there is one stride for each dimension", value.name);
  }
  std::vector<int64_t> sizes_max;
  for (const Symbol& symbol : symbols) sizes_max.push_back(symbol.max);
  for (const Size& extent : value.shape) {
    if (!extent.IsValid() || IsAtMost(0, extent, symbols)) continue;
    if (extent.Constant()) return Invalid("value {}: a dimension is negative", value.name);
    return Invalid("value {}: dimension {} may be negative; give the symbol limits that tell",
                   value.name, extent.ToString(symbols));
  }
  const Size elements = ElementsOf(value.shape);
  if (!elements.IsValid() || !elements.Evaluate(sizes_max) ||
      !IsAtMost(elements, kElementsMax, symbols)) {
    return Invalid("value {}: it has more than {} elements", value.name, kElementsMax);
  }
  KILN_RETURN_IF_ERROR(CheckStrides(value, symbols, sizes_max));
  if (value.is_constant && value.bytes) {
    const auto count = elements.Constant();
    if (!count) return Invalid("value {}: a constant with data has a fixed shape", value.name);
    const int64_t bytes = (*count * FactsOf(value.type).bits + 7) / 8;
    if (static_cast<int64_t>(value.bytes->size()) != bytes) {
      return Invalid("value {}: its data has {} bytes, its shape takes {}", value.name,
                     value.bytes->size(), bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const Segment& segment) { return Checking(segment).Check(); }

}  // namespace kiln::graph
