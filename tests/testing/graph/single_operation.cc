#include "tests/testing/graph/single_operation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "client/graph/segment/shape.h"

namespace kiln::graph {

OperationTensor KnownInts(const std::vector<double>& elements) {
  return {{static_cast<int64_t>(elements.size())}, elements, DType::kI64, true};
}

SingleOperation::SingleOperation(std::string name, Attributes attributes) {
  segment_.name = "single";
  segment_.operations.push_back({std::move(name), {}, {}, std::move(attributes)});
}

SingleOperation& SingleOperation::Symbols(std::vector<Symbol> symbols,
                                          std::vector<int64_t> values) {
  segment_.symbols = std::move(symbols);
  symbols_ = std::move(values);
  return *this;
}

SingleOperation& SingleOperation::Input(OperationTensor tensor) {
  const auto number = static_cast<int>(segment_.values.size());
  buffers_.push_back(TestBuffer::Of(tensor.type, tensor.elements));
  Value value;
  value.name = fmt::format("in{}", number);
  value.type = tensor.type;
  value.shape = std::move(tensor.shape);
  value.is_input = true;
  value.is_constant = tensor.is_constant;
  if (tensor.is_constant) {
    value.bytes = std::make_shared<const std::string>(buffers_.back().bytes().begin(),
                                                      buffers_.back().bytes().end());
  }
  segment_.values.push_back(std::move(value));
  segment_.operations[0].inputs.push_back(number);
  return *this;
}

SingleOperation& SingleOperation::Omitted() {
  segment_.operations[0].inputs.push_back(kOmitted);
  return *this;
}

absl::StatusOr<std::vector<OperationTensor>> SingleOperation::Run(size_t outputs) {
  Segment segment = segment_;
  std::vector<TestBuffer> all = buffers_;
  Operation& operation = segment.operations[0];
  for (size_t i = 0; i < outputs; ++i) {
    operation.outputs.push_back(static_cast<int>(segment.values.size() + i));
  }
  const auto types = InferOutputs(segment, operation);
  if (!types.ok()) return types.status();
  if (types->size() < outputs) return absl::InternalError("too few outputs");
  for (size_t i = 0; i < outputs; ++i) {
    const auto elements = ElementsOf((*types)[i].shape).Evaluate(symbols_);
    all.emplace_back((*types)[i].type, elements.value_or(0));
    Value value;
    value.name = fmt::format("out{}", i);
    value.type = (*types)[i].type;
    value.shape = (*types)[i].shape;
    value.is_output = true;
    segment.values.push_back(std::move(value));
  }
  const auto programs = Lower(segment, operation);
  if (!programs.ok()) return programs.status();
  for (const LoopProgram& program : *programs) {
    std::vector<TestBuffer> buffers;
    std::vector<size_t> numbers;
    for (const Buffer& buffer : program.buffers) {
      numbers.push_back(static_cast<size_t>(std::atoi(buffer.name.c_str() + 1)));
      buffers.push_back(all[numbers.back()]);
    }
    if (auto status = Interpret(program, symbols_, buffers); !status.ok()) return status;
    for (size_t i = 0; i < numbers.size(); ++i) all[numbers[i]] = buffers[i];
  }
  std::vector<OperationTensor> results;
  for (size_t i = 0; i < outputs; ++i) {
    const auto number = static_cast<size_t>(operation.outputs[i]);
    results.push_back({segment.values[number].shape, all[number].Numbers(), all[number].type()});
  }
  return results;
}

std::vector<double> SingleOperation::Elements() {
  auto outputs = Run();
  if (!outputs.ok()) {
    fmt::print("{}\n", outputs.status().ToString());
    return {};
  }
  return std::move((*outputs)[0].elements);
}

std::string SingleOperation::Shape() {
  const auto types = InferOutputs(segment_, segment_.operations[0]);
  if (!types.ok()) return std::string(types.status().message());
  return ShapeText((*types)[0].shape, segment_.symbols);
}

}  // namespace kiln::graph
