// What the operators of attention have in common, whoever defined them.
#pragma once

#include <optional>

#include "client/graph/operators/operands.h"

namespace kiln::graph {

// Tensors are [batch, heads, length, width], or [batch, length, heads * width].
struct Heads {
  Size heads;
  Size length;
  Size width;
};

struct AttentionPlan {
  Heads q;
  Heads k;
  Heads v;
  Size queries_per_head = 1;  // heads of queries that share one of keys and values
  Size past = 0;              // keys of earlier calls
  Size total = 0;             // keys of all calls
  // Inputs, where the operation has them.
  std::optional<size_t> past_keys;
  std::optional<size_t> past_values;
  std::optional<size_t> mask;     // bools, or numbers that are added to scores
  std::optional<size_t> padding;  // how many keys count, or for each key whether it does
  std::optional<size_t> bias;     // of queries, keys and values, one behind the other
  std::optional<size_t> valid;    // how many keys count, the new ones at their end
  std::optional<size_t> last;     // the last new key's place among the keys of all calls
  std::optional<size_t> cosines;  // rotates queries and new keys; sines are the next input
  bool is_interleaved = false;
  bool is_causal = false;
  int64_t left = -1;   // keys that a query sees before its own place; -1: all
  int64_t right = -1;  // … and behind it
  std::optional<double> scale;
  double softcap = 0;
  double padded = 0;  // is added to scores of keys that do not count
  bool is_double = false;

  // Whether a query may see no key at all.
  bool MayBeEmpty() const { return mask || valid || left >= 0 || right >= 0; }
};

absl::StatusOr<AttentionPlan> PlanOfAttention(const Operands& operands);
absl::StatusOr<AttentionPlan> PlanOfMultiHead(const Operands& operands);
absl::StatusOr<AttentionPlan> PlanOfGroupQuery(const Operands& operands);
// That of the operation, whichever of the three it is.
absl::StatusOr<AttentionPlan> AttentionPlanOf(const Segment& segment, const Operation& operation);

}  // namespace kiln::graph
