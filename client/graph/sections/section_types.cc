#include "client/graph/sections/section_types.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace kiln::graph {
namespace {

using Type = SectionType;

constexpr SectionTypeFacts kSectionTypes[] = {
    // type, name, pointwise, prologue, epilogue, tiling
    {Type::kElementwise, "elementwise", true, true, true, Tiling::kBlocks},
    {Type::kView, "view", true, true, true, Tiling::kBlocks},
    {Type::kConstant, "constant", true, false, true, Tiling::kBlocks},
    {Type::kGather, "gather", true, true, true, Tiling::kBlocks},
    {Type::kReduction, "reduction", false, true, true, Tiling::kBlocks},
    {Type::kNormalization, "normalization", false, true, true, Tiling::kBlocks},
    {Type::kMatmul, "matmul", false, true, true, Tiling::kProduct},
    {Type::kConvolution, "convolution", false, true, true, Tiling::kProduct},
    {Type::kAttention, "attention", false, true, true, Tiling::kAttention},
};

constexpr uint8_t kLikeSm90 = kSm90 | kSm100;
constexpr uint8_t kLikeSm80 = kSm80 | kSm120;
constexpr uint8_t kFromSm90 = kSm90 | kSm100 | kSm120;
constexpr Factors kAny = Factors::kAny;
constexpr Factors kUnit = Factors::kWithUnit;
constexpr Factors kNoUnit = Factors::kWithoutUnit;

// Shared memory has to hold (rows + columns) * depth * stages: 227 KiB of sm_90 and sm_100, 99 KiB
// of sm_86 and sm_120, 64 KiB of AMD's.
constexpr ProductTiles kProductTiles[] = {
    // generations, factors, rows, columns, depth in bytes, warps, stages
    {kLikeSm90, kUnit, 128, 256, 128, 8, 3},
    {kLikeSm90, kUnit, 128, 128, 128, 4, 3},
    {kLikeSm90, kUnit, 64, 128, 128, 4, 4},
    {kLikeSm90, kUnit, 128, 64, 128, 4, 4},
    {kLikeSm80, kUnit, 128, 128, 64, 4, 3},
    {kLikeSm80, kUnit, 64, 128, 64, 4, 4},
    {kLikeSm80, kUnit, 128, 64, 64, 4, 4},
    {kAmd, kUnit, 128, 128, 128, 4, 2},
    {kAmd, kUnit, 64, 128, 128, 4, 2},
    {kAmd, kUnit, 128, 64, 128, 4, 2},
    {kEveryGeneration, kNoUnit, 64, 64, 64, 8, 3},
    {kEveryGeneration, kAny, 64, 64, 128, 4, 3},
    {kEveryGeneration, kAny, 32, 64, 128, 4, 4},
    {kEveryGeneration, kAny, 64, 32, 128, 4, 4},
    {kEveryGeneration, kAny, 32, 32, 128, 2, 4},
    {kEveryGeneration, kAny, 16, 64, 128, 2, 4},
    {kEveryGeneration, kAny, 64, 16, 128, 2, 4},
    {kEveryGeneration, kAny, 16, 32, 128, 1, 4},
    {kEveryGeneration, kAny, 32, 16, 128, 1, 4},
    {kEveryGeneration, kAny, 16, 16, 128, 1, 4},
};

constexpr AttentionTilesMax kAttentionTiles[] = {
    // generations, factors, head, queries, keys, stages, adds apart
    {kEveryGeneration, kNoUnit, kWidestHead, 32, 32, 1, false},
    {kSm80, kUnit, 128, 128, 64, 2, false},
    {kSm80, kUnit, kWidestHead, 64, 32, 2, false},
    {kSm90, kUnit, 128, 64, 64, 3, true},
    {kSm100 | kSm120, kUnit, 128, 64, 64, 3, false},
    {kFromSm90, kUnit, kWidestHead, 64, 32, 2, false},
    {kAmd, kUnit, 128, 128, 64, 1, false},
    {kAmd, kUnit, kWidestHead, 64, 32, 1, false},
};

bool Fits(uint8_t generations, Factors factors, Generation generation, bool has_unit) {
  const bool suits = factors == kAny || (factors == kUnit) == has_unit;
  return suits && (generations & generation) != 0;
}

}  // namespace

std::span<const SectionTypeFacts> AllSectionTypes() { return kSectionTypes; }

const SectionTypeFacts& FactsOf(SectionType type) {
  return kSectionTypes[static_cast<size_t>(type)];
}

std::optional<SectionType> ParseSectionType(std::string_view name) {
  const auto* found = std::ranges::find(kSectionTypes, name, &SectionTypeFacts::name);
  return found == std::end(kSectionTypes) ? std::nullopt : std::optional(found->type);
}

std::string SectionTypeNames() {
  std::string names;
  for (const SectionTypeFacts& facts : kSectionTypes) {
    names += (names.empty() ? "" : ", ") + std::string(facts.name);
  }
  return names;
}

int ArchitectureNumber(std::string_view architecture) {
  int number = 0;
  std::from_chars(architecture.data(), architecture.data() + architecture.size(), number);
  return number;
}

Generation GenerationOf(std::string_view backend, std::string_view architecture) {
  if (backend == "hip") return kAmd;
  const int number = ArchitectureNumber(architecture);
  if (number < 90) return kSm80;
  return number < 100 ? kSm90 : number < 120 ? kSm100 : kSm120;
}

bool ProductTiles::AreFor(Generation generation, bool has_unit) const {
  return Fits(generations, factors, generation, has_unit);
}
std::span<const ProductTiles> AllProductTiles() { return kProductTiles; }

bool AttentionTilesMax::AreFor(Generation generation, bool has_unit) const {
  return Fits(generations, factors, generation, has_unit);
}
std::span<const AttentionTilesMax> AllAttentionTiles() { return kAttentionTiles; }

}  // namespace kiln::graph
