// Runs one operation through lowering and the interpreter.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/lowering.h"
#include "tests/testing/graph/program_interpreter.h"

namespace kiln::graph {

struct TestTensor {
  DType type = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> numbers;
  bool is_constant = false;
};

// The only output, in the type and shape that InferOutputs says.
inline absl::StatusOr<TestTensor> RunOperation(const std::string& name,
                                               const std::vector<TestTensor>& inputs,
                                               const Attributes& attributes = {}) {
  Segment segment;
  Operation operation;
  operation.name = name;
  operation.attributes = attributes;
  std::vector<TestBuffer> buffers;
  for (const TestTensor& input : inputs) {
    Value value;
    value.type = input.type;
    value.shape.assign(input.shape.begin(), input.shape.end());
    operation.inputs.push_back(static_cast<int>(segment.values.size()));
    segment.values.push_back(value);
    buffers.push_back(TestBuffer::Of(input.type, input.numbers));
    if (input.is_constant) {
      const std::vector<uint8_t>& bytes = buffers.back().bytes();
      segment.values.back().is_input = segment.values.back().is_constant = true;
      segment.values.back().bytes = std::make_shared<const std::string>(bytes.begin(), bytes.end());
    }
  }
  const auto outputs = InferOutputs(segment, operation);
  if (!outputs.ok()) return outputs.status();
  Value value;
  value.type = outputs->front().type;
  value.shape = outputs->front().shape;
  operation.outputs = {static_cast<int>(segment.values.size())};
  segment.values.push_back(value);
  TestTensor result;
  result.type = value.type;
  int64_t elements = 1;
  for (const Size& extent : value.shape) {
    result.shape.push_back(*extent.Constant());
    elements *= result.shape.back();
  }
  buffers.emplace_back(value.type, elements);
  const auto programs = Lower(segment, operation);
  if (!programs.ok()) return programs.status();
  if (const auto status = Interpret(programs->front(), {}, buffers); !status.ok()) return status;
  result.numbers = buffers.back().Numbers();
  return result;
}

}  // namespace kiln::graph
