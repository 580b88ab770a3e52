// Writes segments down in few words.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/graph/operators/lowering.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// Values are numbers. Operations infer the types and shapes of what they give.
class SegmentMaker {
 public:
  explicit SegmentMaker(std::string name = "test") { segment_.name = std::move(name); }

  Size Symbol(std::string name, int64_t min, int64_t max, int64_t typical) {
    segment_.symbols.push_back({std::move(name), min, max, typical, 1});
    return Size::Of(static_cast<int>(segment_.symbols.size()) - 1);
  }
  int Input(std::vector<Size> shape, DType type = DType::kF32,
            std::optional<std::vector<Size>> strides = std::nullopt) {
    Value value{.name = NextName(), .type = type, .shape = std::move(shape), .is_input = true};
    value.strides = std::move(strides);
    segment_.values.push_back(std::move(value));
    return static_cast<int>(segment_.values.size()) - 1;
  }
  int Integers(const std::vector<int64_t>& numbers) {  // a constant of one dimension
    const int value = Input({static_cast<int64_t>(numbers.size())}, DType::kI64);
    segment_.values.back().is_constant = true;
    segment_.values.back().bytes = std::make_shared<const std::string>(
        reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t));
    return value;
  }
  // The first output; the others, if any, have the numbers behind it.
  int Add(std::string op, std::vector<int> inputs, Attributes attributes = {}, int outputs = 1) {
    Operation operation{std::move(op), std::move(inputs), {}, std::move(attributes)};
    for (int i = 0; i < outputs; ++i) {
      operation.outputs.push_back(static_cast<int>(segment_.values.size()) + i);
    }
    const std::vector<TensorType> given = InferOutputs(segment_, operation).value();
    for (int i = 0; i < outputs; ++i) {
      const TensorType& output = given.at(static_cast<size_t>(i));
      segment_.values.push_back({.name = NextName(), .type = output.type, .shape = output.shape});
    }
    segment_.operations.push_back(std::move(operation));
    return segment_.operations.back().outputs.front();
  }
  void Output(int value) { segment_.values[static_cast<size_t>(value)].is_output = true; }
  const Segment& segment() const { return segment_; }
  Segment& segment() { return segment_; }

 private:
  std::string NextName() const { return "v" + std::to_string(segment_.values.size()); }

  Segment segment_;
};

}  // namespace kiln::graph
