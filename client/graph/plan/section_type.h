// The types of sections, in one table: what each may fuse.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "client/graph/operators/op_table.h"

namespace kiln::graph {

enum class SectionType : uint8_t {
  kElementwise,  // one element of each input for each element
  kView,         // index arithmetic alone
  kConstant,     // no input
  kGather,       // elements by indices that are data; scatters, too
  kReduction,
  kNormalization,  // rows: softmax, layer norm
  kMatmul,
  kConvolution,
  kAttention,
};

struct SectionTypeFacts {
  SectionType type;
  std::string_view name;  // "matmul": in PlanConfig and Explain
  // Whether it computes an element without a loop. Such an operation can be computed where its
  // element is needed, as often as that is.
  bool is_pointwise;
  // Computes the elements of its inputs itself. All read views of memory.
  bool takes_prologue;
  bool takes_epilogue;  // has elementwise operations done to its elements before they are stored
};

const SectionTypeFacts& FactsOf(SectionType type);
std::optional<SectionType> ParseSectionType(std::string_view name);

// The type of an operation by itself.
SectionType SectionTypeOf(OpCategory category);

}  // namespace kiln::graph
