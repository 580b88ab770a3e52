#include "client/graph/operators/layers/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/graph/operators/op_table.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::StatusOr<Heads> HeadsOf(const Operands& operands, size_t input, std::string_view count) {
  const Shape& shape = operands.ShapeOf(input);
  if (shape.size() == 4) return Heads{shape[1], shape[2], shape[3]};
  const int64_t heads = operands.Int(count, 0);
  if (shape.size() != 3) return operands.Error("takes tensors of 3 or 4 dimensions");
  const auto width = heads < 1 ? std::nullopt : Quotient(shape[2], heads);
  if (width) return Heads{heads, shape[1], *width};
  return operands.Error(fmt::format("{} has to divide {}", count, operands.Text({shape[2]})));
}

// Queries, keys and values are inputs 0 to 2; `queries` and `keys` name attributes.
absl::StatusOr<AttentionPlan> PlanOfInputs(const Operands& operands, std::string_view queries,
                                           std::string_view keys) {
  KILN_ASSIGN_OR_RETURN(const auto q, HeadsOf(operands, 0, queries));
  KILN_ASSIGN_OR_RETURN(const auto k, HeadsOf(operands, 1, keys));
  KILN_ASSIGN_OR_RETURN(const auto v, HeadsOf(operands, 2, keys));
  const auto shared = Quotient(q.heads, k.heads);
  if (!shared || k.heads != v.heads || k.length != v.length || q.width != k.width ||
      operands.ShapeOf(0)[0] != operands.ShapeOf(1)[0] ||
      operands.ShapeOf(0)[0] != operands.ShapeOf(2)[0]) {
    return operands.Error(fmt::format(
        "queries {}, keys {} and values {} do not fit", operands.Text(operands.ShapeOf(0)),
        operands.Text(operands.ShapeOf(1)), operands.Text(operands.ShapeOf(2))));
  }
  AttentionPlan plan;
  plan.q = q;
  plan.k = k;
  plan.v = v;
  plan.queries_per_head = *shared;
  plan.total = k.length;
  return plan;
}

// Keys and values of earlier calls: inputs `keys` and the next one.
absl::Status AddPast(const Operands& operands, size_t keys, AttentionPlan& plan) {
  if (operands.Has(keys) != operands.Has(keys + 1)) {
    return operands.Error("past keys and values come together");
  }
  if (!operands.Has(keys)) return absl::OkStatus();
  plan.past_keys = keys;
  plan.past_values = keys + 1;
  const Shape& past = operands.ShapeOf(keys);
  Shape expected = {operands.ShapeOf(0)[0], plan.k.heads, 0, plan.k.width};
  if (past.size() == 4) expected[2] = plan.past = past[2];
  const bool fits = past == expected;
  expected.back() = plan.v.width;
  if (!fits || operands.ShapeOf(keys + 1) != expected) {
    return operands.Error("past keys and values have to be [batch, heads, length, width]");
  }
  plan.total = plan.past + plan.k.length;
  return absl::OkStatus();
}

// The mask's last dimension may be shorter: keys behind it are masked. Of a single column ONNX's
// text says that it is broadcast and its evaluator that it is shorter.
absl::Status AddMask(const Operands& operands, size_t input, AttentionPlan& plan) {
  if (!operands.Has(input)) return absl::OkStatus();
  plan.mask = input;
  const Shape scores = {operands.ShapeOf(0)[0], plan.q.heads, plan.q.length, plan.total};
  Shape mask = operands.ShapeOf(input);
  if (!mask.empty() && mask.back() == Size(1) && plan.total != Size(1)) {
    return operands.Missing("a mask of one column is not lowered");
  }
  if (!mask.empty() && operands.IsAtMost(mask.back(), plan.total)) mask.back() = plan.total;
  if (!mask.empty() && mask.size() <= 4 && BroadcastShape(scores, mask) == scores) {
    return absl::OkStatus();
  }
  return operands.Error(fmt::format("a mask of {} does not fit scores of {}",
                                    operands.Text(operands.ShapeOf(input)), operands.Text(scores)));
}

void AddScale(const Operands& operands, AttentionPlan& plan) {
  if (operands.HasAttribute("scale")) plan.scale = operands.Float("scale", 1);
  plan.softcap = operands.Float("softcap", 0);
}

absl::Status CheckBatch(const Operands& operands, size_t input) {
  if (operands.ShapeOf(input) == Shape{operands.ShapeOf(0)[0]}) return absl::OkStatus();
  return operands.Error("needs a number of keys for each of the batch");
}

}  // namespace

// ONNX's: inputs are q, k, v, mask, past keys, past values, how many keys count.
absl::StatusOr<AttentionPlan> PlanOfAttention(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto plan, PlanOfInputs(operands, "q_num_heads", "kv_num_heads"));
  KILN_RETURN_IF_ERROR(AddPast(operands, 4, plan));
  KILN_RETURN_IF_ERROR(AddMask(operands, 3, plan));
  AddScale(operands, plan);
  plan.is_causal = operands.Int("is_causal", 0) != 0;
  plan.left = operands.Int("left_window_size", -1);
  plan.right = operands.Int("right_window_size", -1);
  plan.is_double = operands.Int("softmax_precision", 1) == 11;
  if (!operands.Has(6)) return plan;
  if (operands.Has(4)) return operands.Error("takes past keys or nonpad_kv_seqlen, not both");
  KILN_RETURN_IF_ERROR(CheckBatch(operands, 6));
  plan.valid = 6;
  return plan;
}

// ONNX Runtime's: inputs are q, k, v, bias, padding, an addend of scores, past keys, past values.
absl::StatusOr<AttentionPlan> PlanOfMultiHead(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto plan, PlanOfInputs(operands, "num_heads", "num_heads"));
  KILN_RETURN_IF_ERROR(AddPast(operands, 6, plan));
  KILN_RETURN_IF_ERROR(AddMask(operands, 5, plan));
  AddScale(operands, plan);
  plan.is_causal = operands.Int("unidirectional", 0) != 0;
  plan.padded = operands.Float("mask_filter_value", -10000);
  const Size width = plan.q.heads * plan.q.width;
  if (operands.Has(3)) {
    plan.bias = 3;
    if (operands.ShapeOf(3) != Shape{width + width + plan.v.heads * plan.v.width}) {
      return operands.Error("the bias has a number for each column of queries, keys and values");
    }
  }
  if (!operands.Has(4)) return plan;
  plan.padding = 4;
  const Size& batch = operands.ShapeOf(0)[0];
  const Shape& padding = operands.ShapeOf(4);
  if (padding != Shape{batch} && padding != Shape{batch, plan.total}) {
    return operands.Missing(
        fmt::format("a padding mask of {} is not lowered", operands.Text(padding)));
  }
  return plan;
}

// ONNX Runtime's: inputs are q, k, v, past keys, past values, the last key's place, the number of
// keys, cosines, sines. The past is a buffer with room behind its keys.
absl::StatusOr<AttentionPlan> PlanOfGroupQuery(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(auto plan, PlanOfInputs(operands, "num_heads", "kv_num_heads"));
  KILN_RETURN_IF_ERROR(AddPast(operands, 3, plan));
  AddScale(operands, plan);
  plan.is_causal = true;
  plan.left = operands.Int("local_window_size", -1);
  if (operands.Has(5)) {
    plan.last = 5;
    KILN_RETURN_IF_ERROR(CheckBatch(operands, 5));
  }
  if (plan.past_keys) {
    const auto total = operands.IntsOrInput("total_sequence_length", 6);
    if (!total.ok()) return operands.Missing("total_sequence_length has to be a constant");
    const auto room = plan.past.Constant();
    if (!*total || (*total)->size() != 1 || !room || !plan.last) {
      return operands.Missing("past keys need a length that is known, and total_sequence_length");
    }
    plan.total = std::max((**total)[0], *room);
  }
  if (operands.Int("do_rotary", 0) == 0) return plan;
  plan.cosines = 7;
  plan.is_interleaved = operands.Int("rotary_interleaved", 0) != 0;
  const auto half =
      operands.Has(7) && operands.Rank(7) == 2 ? operands.ShapeOf(7)[1].Constant() : std::nullopt;
  if (!half || !operands.Has(8) || operands.ShapeOf(8) != operands.ShapeOf(7) ||
      !operands.IsAtMost(2 * *half, plan.q.width)) {
    return operands.Error("do_rotary needs cosines and sines [places, columns / 2]");
  }
  return plan;
}

absl::StatusOr<AttentionPlan> AttentionPlanOf(const Segment& segment, const Operation& operation) {
  const Operands operands(segment, operation);
  const std::string_view name = FindOperator(operation.name)->name;
  if (name == "MultiHeadAttention") return PlanOfMultiHead(operands);
  return name == "GroupQueryAttention" ? PlanOfGroupQuery(operands) : PlanOfAttention(operands);
}

}  // namespace kiln::graph
