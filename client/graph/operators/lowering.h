// How operations become loops. An operation is described by one element of its output: from a
// position, instructions that compute the element there. So fusion is composition: where the
// planner fuses a producer, reading its output at a position emits the producer's element there.
// (The idea is Halide's compute_inline, and Inductor's inner functions.)
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/program/loop_program.h"
#include "client/graph/program/program_builder.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// A place in a tensor: for each dimension an i64 instruction.
using Position = std::vector<int>;

// What an operation reads its inputs through, and the program that it adds instructions to.
class Elements {
 public:
  virtual ~Elements() = default;

  virtual const Segment& segment() const = 0;
  virtual ProgramBuilder& builder() = 0;
  // The element of a value at a position, in the value's own type. The same instruction for the
  // same position. Where a guard holds that is false, memory is not read and the element is 0.
  [[nodiscard]] virtual absl::StatusOr<int> Read(int value, const Position& position) = 0;
  // Until EndGuard every Read holds for `condition` (bool) alone: padding, indices from data.
  // Guards nest.
  virtual void BeginGuard(int condition) = 0;
  virtual void EndGuard() = 0;
};

// The element of output `output` (0: the first) at `position`, in the output's type. It may make
// inner axes and reduce over them. What depends on outer axes alone is computed once for them.
using ElementOf = absl::StatusOr<int> (*)(const Operation& operation, int output,
                                          const Position& position, Elements& elements);
// Dimensions of the output that had better be inner axes, since every position of them needs the
// same reductions: the axis of a softmax. Empty: none.
using InnerDimensionsOf = std::vector<int> (*)(const Segment& segment, const Operation& operation);

// What is known of an output before its elements are.
struct TensorType {
  DType type = DType::kF32;
  std::vector<Size> shape;
  bool operator==(const TensorType&) const = default;
};
// Gives the type of each output, by types, shapes, constants and attributes of inputs.
using OutputsOf = absl::StatusOr<std::vector<TensorType>> (*)(const Segment& segment,
                                                              const Operation& operation);

struct LoweringRule {
  OutputsOf outputs = nullptr;
  ElementOf element = nullptr;
  InnerDimensionsOf inner = nullptr;
};

// A name in the operator table, or an alias. Null: nothing lowers it. lowering.cc lists the files
// of rules.
const LoweringRule* FindLoweringRule(std::string_view name);

[[nodiscard]] absl::StatusOr<std::vector<TensorType>> InferOutputs(const Segment& segment,
                                                                   const Operation& operation);

// One operation alone, without fusion: a program for each output. Buffers are named v<number of the
// value>, inputs in order and once each, then the output. The values of `operation` have shapes.
[[nodiscard]] absl::StatusOr<std::vector<LoopProgram>> Lower(const Segment& segment,
                                                             const Operation& operation);

}  // namespace kiln::graph
