#include "client/graph/plan/section_type.h"

#include <array>

namespace kiln::graph {
namespace {

using Type = SectionType;

constexpr std::array<SectionTypeFacts, 9> kSectionTypes = {{
    // type, name, pointwise, prologue, epilogue
    {Type::kElementwise, "elementwise", true, true, true},
    {Type::kView, "view", true, true, true},
    {Type::kConstant, "constant", true, false, true},
    {Type::kGather, "gather", true, true, true},
    {Type::kReduction, "reduction", false, true, true},
    {Type::kNormalization, "normalization", false, true, true},
    {Type::kMatmul, "matmul", false, true, true},
    {Type::kConvolution, "convolution", false, true, true},
    {Type::kAttention, "attention", false, false, true},
}};

}  // namespace

const SectionTypeFacts& FactsOf(SectionType type) {
  return kSectionTypes[static_cast<size_t>(type)];
}

std::optional<SectionType> ParseSectionType(std::string_view name) {
  for (const SectionTypeFacts& facts : kSectionTypes) {
    if (facts.name == name) return facts.type;
  }
  return std::nullopt;
}

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
