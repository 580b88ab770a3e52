// Shapes that a model computes: few integers, from Shape nodes and constants by arithmetic.
// Exporters write reshapes so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/graph/program/size.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// The elements of an integer or bool tensor, row-major.
using ShapeElements = std::vector<Size>;

class ShapeValues {
 public:
  // The elements of the operation's only output; nothing where they depend on other data than
  // shapes, are many, or are no polynomials. `output` has its type and shape.
  std::optional<ShapeElements> Evaluate(const Segment& segment, const Operation& operation,
                                        const Value& output) const;
  // What is known of a value that the segment computes.
  void Add(int value, ShapeElements elements) { known_[value] = std::move(elements); }
  // For the first input of a Reshape, the second one as numbers: 0 keeps the dimension, -1 is the
  // rest. Nothing where more than one dimension is open.
  std::optional<std::vector<int64_t>> TargetOfReshape(const Segment& segment,
                                                      const Operation& operation) const;

 private:
  std::optional<ShapeElements> Of(const Segment& segment, int value) const;

  std::map<int, ShapeElements> known_;  // by value
};

// The bytes of a tensor of this type; nothing where a size is open.
std::optional<std::string> BytesOfElements(DType type, const ShapeElements& elements);

}  // namespace kiln::graph
