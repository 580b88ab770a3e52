// What an engine hands over: a piece of its graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/graph/program/dtype.h"
#include "client/graph/program/size.h"

namespace kiln::graph {

using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute>;  // booleans are 0 and 1

// A tensor. Its elements are the engine's unless both flags are false: then it is an intermediate,
// which a plan may never store.
struct Value {
  std::string name = {};  // unique within the segment; any text
  DType type = DType::kF32;
  std::vector<Size> shape = {};  // empty for a scalar
  // In elements, one for each dimension; absent for row-major. 0 repeats elements.
  std::optional<std::vector<Size>> strides = std::nullopt;
  bool is_input = false;
  bool is_output = false;
  // A constant is an input whose elements never change. With `bytes` (little endian, row-major,
  // two 4-bit elements a byte, the lower half first) a plan may compute with them. Copies share
  // them: a model may have gigabytes.
  bool is_constant = false;
  std::shared_ptr<const std::string> bytes = nullptr;
  // Its type or shape is not known: operations that the engine keeps alone may touch it.
  bool is_opaque = false;
};

inline constexpr int kOmitted = -1;

struct Operation {
  std::string name;          // of the operator: "Add", "aten::add", in op_table.h
  std::vector<int> inputs;   // numbers of values; kOmitted where an optional one is left out
  std::vector<int> outputs;  // likewise; each value is the output of one operation at most
  Attributes attributes;     // those left out have the table's defaults
  // Why the engine keeps it, whatever Kiln could do; empty: Kiln may plan it. Of a kept operation
  // only the order is known: its name may be in no table.
  std::string kept_because = {};
};

// Operations may stand in any order; a value's producer is found by number. Check (segment_check.h)
// tells what is wrong with a segment.
struct Segment {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Value> values;
  std::vector<Operation> operations;
};

}  // namespace kiln::graph
