// Computes one operation: infers its outputs, lowers it, runs the programs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/lowering.h"
#include "tests/testing/graph/program_interpreter.h"

namespace kiln::graph {

struct OperationTensor {
  std::vector<Size> shape;
  std::vector<double> elements;
  DType type = DType::kF32;
  bool is_constant = false;  // its elements are known when the kernel is planned
};

// A list of 64-bit integers that is known.
OperationTensor KnownInts(const std::vector<double>& elements);

class SingleOperation {
 public:
  explicit SingleOperation(std::string name, Attributes attributes = {});

  SingleOperation& Symbols(std::vector<Symbol> symbols, std::vector<int64_t> values);
  SingleOperation& Input(OperationTensor tensor);
  SingleOperation& Omitted();

  // The elements of each output.
  absl::StatusOr<std::vector<OperationTensor>> Run(size_t outputs = 1);
  // Elements of the first output; an error is a failure of the test.
  std::vector<double> Elements();
  // The first output's shape as text, or the error.
  std::string Shape();

 private:
  Segment segment_;
  std::vector<int64_t> symbols_;
  std::vector<TestBuffer> buffers_;  // by value
};

}  // namespace kiln::graph
