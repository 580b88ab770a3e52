// The files of lowering rules. A new file has a line here and one in lowering.cc.
#pragma once

#include <span>
#include <string_view>

#include "client/graph/operators/lowering.h"

namespace kiln::graph {

struct NamedRule {
  std::string_view op;  // the operator's name in the table, never an alias
  LoweringRule rule;
};

// elementwise.cc: for every operator with an expression in the table.
extern const LoweringRule kElementwiseRule;
// quantization.cc: to and from integers with scales.
std::span<const NamedRule> QuantizationRules();
// constants.cc: elements that depend on no tensor's elements.
std::span<const NamedRule> ConstantRules();
// view_rules.cc: no element changes, only where it stands.
std::span<const NamedRule> ViewRules();
// movement.cc: elements go to other places.
std::span<const NamedRule> MovementRules();
// padding.cc: elements beside the input.
std::span<const NamedRule> PaddingRules();
// indexing.cc: places come from data.
std::span<const NamedRule> IndexingRules();
// reductions.cc: over axes, to positions of extremes, cumulative.
std::span<const NamedRule> ReductionRules();
// normalizations.cc: softmaxes, and what divides by a deviation or a norm.
std::span<const NamedRule> NormalizationRules();
// products.cc: products of matrices, and determinants.
std::span<const NamedRule> ProductRules();
// layers/convolutions.cc: forwards and transposed.
std::span<const NamedRule> ConvolutionRules();
// layers/pools.cc: reductions over windows.
std::span<const NamedRule> PoolRules();
// layers/unfolding.cc: windows as columns and back, and unpooling.
std::span<const NamedRule> UnfoldingRules();
// layers/sampling.cc: GridSample.
std::span<const NamedRule> SamplingRules();
// layers/attention.cc: softmax of products of queries and keys, times values.
std::span<const NamedRule> AttentionRules();
// statistics.cc: of whole tensors, and their shapes.
std::span<const NamedRule> StatisticRules();
// layers/losses.cc: by the class of each target.
std::span<const NamedRule> LossRules();
// einsum.cc: Einsum.
std::span<const NamedRule> EinsumRules();
// layers/resizing.cc: Resize and Upsample.
std::span<const NamedRule> ResizeRules();
// layers/skip_normalizations.cc: of a sum.
std::span<const NamedRule> SkipNormalizationRules();
// layers/language_models.cc: rotary embeddings and gated units.
std::span<const NamedRule> LanguageModelRules();

}  // namespace kiln::graph
