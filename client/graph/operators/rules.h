// The files of lowering rules. Each finds a rule by the operator's name in the table (never an
// alias), or null. A new file has a line here and one in lowering.cc.
#pragma once

#include <string_view>

#include "client/graph/operators/lowering.h"

namespace kiln::graph {

// elementwise.cc: by the table's expressions.
const LoweringRule* FindElementwiseRule(std::string_view op);
// quantization.cc: to and from integers with scales.
const LoweringRule* FindQuantizationRule(std::string_view op);
// constants.cc: elements that depend on no tensor's elements.
const LoweringRule* FindConstantRule(std::string_view op);
// view_rules.cc: no element changes, only where it stands.
const LoweringRule* FindViewRule(std::string_view op);
// movement.cc: elements go to other places.
const LoweringRule* FindMovementRule(std::string_view op);
// padding.cc: elements beside the input.
const LoweringRule* FindPaddingRule(std::string_view op);
// indexing.cc: places come from data.
const LoweringRule* FindIndexingRule(std::string_view op);
// reductions.cc: over axes, to positions of extremes, cumulative.
const LoweringRule* FindReductionRule(std::string_view op);
// normalizations.cc: softmaxes, and what divides by a deviation or a norm.
const LoweringRule* FindNormalizationRule(std::string_view op);
// products.cc: products of matrices, and determinants.
const LoweringRule* FindProductRule(std::string_view op);
// layers/convolutions.cc: forwards and transposed.
const LoweringRule* FindConvolutionRule(std::string_view op);
// layers/pools.cc: reductions over windows.
const LoweringRule* FindPoolRule(std::string_view op);
// layers/unfolding.cc: windows as columns and back, and unpooling.
const LoweringRule* FindUnfoldingRule(std::string_view op);
// layers/sampling.cc: GridSample.
const LoweringRule* FindSamplingRule(std::string_view op);
// layers/attention.cc: softmax of products of queries and keys, times values.
const LoweringRule* FindAttentionRule(std::string_view op);
// statistics.cc: of whole tensors, and their shapes.
const LoweringRule* FindStatisticRule(std::string_view op);
// layers/losses.cc: by the class of each target.
const LoweringRule* FindLossRule(std::string_view op);
// einsum.cc: Einsum.
const LoweringRule* FindEinsumRule(std::string_view op);
// layers/resizing.cc: Resize and Upsample.
const LoweringRule* FindResizeRule(std::string_view op);
// layers/skip_normalizations.cc: of a sum.
const LoweringRule* FindSkipNormalizationRule(std::string_view op);
// layers/language_models.cc: rotary embeddings and gated units.
const LoweringRule* FindLanguageModelRule(std::string_view op);

}  // namespace kiln::graph
