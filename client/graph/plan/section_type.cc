#include "client/graph/plan/section_type.h"

#include <array>

namespace kiln::graph {
namespace {

using enum SectionType;

constexpr std::array<SectionTypeFacts, 10> kSectionTypes = {{
    // type, name, pointwise, prologue, epilogue
    {kElementwise, "elementwise", true, true, true},
    {kView, "view", true, true, true},
    {kConstant, "constant", true, false, true},
    {kGather, "gather", true, true, true},
    {kReduction, "reduction", false, true, true},
    {kNormalization, "normalization", false, true, true},
    {kMatmul, "matmul", false, true, true},
    {kConvolution, "convolution", false, true, true},
    {kAttention, "attention", false, false, true},
    {kScatter, "scatter", false, false, false},
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

}  // namespace kiln::graph
