#include "client/graph/plan/operator_section.h"

namespace kiln::graph {

SectionType SectionTypeOf(OpCategory category) {
  switch (category) {
    case OpCategory::kConstant:
      return SectionType::kConstant;
    case OpCategory::kMatMul:
      return SectionType::kMatmul;
    case OpCategory::kReduction:
      return SectionType::kReduction;
    case OpCategory::kNormalization:
    case OpCategory::kFused:
      return SectionType::kNormalization;
    case OpCategory::kAttention:
      return SectionType::kAttention;
    case OpCategory::kShape:
      return SectionType::kView;
    case OpCategory::kMovement:
    case OpCategory::kRope:
      return SectionType::kGather;
    case OpCategory::kConvolution:
      return SectionType::kConvolution;
    default:
      return SectionType::kElementwise;
  }
}

}  // namespace kiln::graph
