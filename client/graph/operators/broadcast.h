// Which shape and type several inputs have together.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/lowering.h"

namespace kiln::graph {

// Null where the operation has no such input.
const Value* InputAt(const Segment& segment, const Operation& operation, size_t input);
// By name, or by ONNX's number.
std::optional<DType> DTypeAttribute(const Operation& operation, std::string_view name);

// NumPy's rules; sizes that depend on symbols fit where they are equal.
[[nodiscard]] absl::StatusOr<std::vector<Size>> BroadcastShapes(const std::vector<Size>& one,
                                                                const std::vector<Size>& two,
                                                                const std::vector<Symbol>& symbols);
// Where an element of the broadcast shape lies in an input of `shape`.
Position BroadcastPosition(const Position& position, const std::vector<Size>& shape,
                           ProgramBuilder& builder);
// The type that holds the values of both, as PyTorch has it.
DType PromotedType(DType one, DType two);

}  // namespace kiln::graph
