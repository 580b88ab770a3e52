#include "client/graph/sections/section_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kiln::graph {
namespace {

constexpr Generation kGenerations[] = {kSm80, kSm90, kSm100, kSm120, kAmd};

TEST(SectionTypesTest, EachTypeIsInItsPlaceOfTheTable) {
  for (size_t i = 0; i < AllSectionTypes().size(); ++i) {
    const SectionTypeFacts& facts = AllSectionTypes()[i];
    EXPECT_EQ(static_cast<size_t>(facts.type), i) << facts.name;
    EXPECT_EQ(ParseSectionType(facts.name), facts.type);
  }
  EXPECT_EQ(AllSectionTypes().back().type, SectionType::kAttention);
  EXPECT_EQ(ParseSectionType("soup"), std::nullopt);
}

TEST(SectionTypesTest, AnArchitectureHasTheTilesOfItsGeneration) {
  EXPECT_EQ(GenerationOf("cuda", ""), kSm80);
  EXPECT_EQ(GenerationOf("cuda", "89"), kSm80);
  EXPECT_EQ(GenerationOf("cuda", "90a"), kSm90);
  EXPECT_EQ(GenerationOf("cuda", "103a"), kSm100);
  EXPECT_EQ(GenerationOf("cuda", "121"), kSm120);
  EXPECT_EQ(GenerationOf("hip", "gfx942"), kAmd);
}

// What the smallest GPU of each generation lets a block have.
TEST(SectionTypesTest, SharedMemoryHoldsTheTilesOfEachProduct) {
  const std::map<Generation, int64_t> shared = {{kSm80, 99 << 10},
                                                {kSm90, 227 << 10},
                                                {kSm100, 227 << 10},
                                                {kSm120, 99 << 10},
                                                {kAmd, 64 << 10}};
  for (const Generation generation : kGenerations) {
    for (const ProductTiles& row : AllProductTiles()) {
      if ((row.generations & generation) == 0) continue;
      EXPECT_LE((row.rows + row.columns) * row.depth_bytes * row.stages, shared.at(generation))
          << row.rows << " x " << row.columns << " for generation " << int{generation};
    }
  }
}

TEST(SectionTypesTest, EachTargetHasTilesForAnyProductAndAnyHead) {
  for (const Generation generation : kGenerations) {
    for (const bool has_unit : {false, true}) {
      EXPECT_TRUE(std::ranges::any_of(AllProductTiles(), [&](const ProductTiles& row) {
        return row.AreFor(generation, has_unit) && row.rows == kSmallestTile &&
               row.columns == kSmallestTile;
      }));
      EXPECT_TRUE(std::ranges::any_of(AllAttentionTiles(), [&](const AttentionTilesMax& row) {
        return row.AreFor(generation, has_unit) && row.head_max == kWidestHead;
      }));
    }
  }
}

}  // namespace
}  // namespace kiln::graph
