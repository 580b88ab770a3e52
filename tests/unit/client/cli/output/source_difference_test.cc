#include "client/cli/output/source_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(SourceDifference, EqualSourcesHaveNone) {
  EXPECT_THAT(DifferentLines("a\nb", "a\nb"), IsEmpty());
}

TEST(SourceDifference, AnAddedLineIsTheOnlyOneThatDiffers) {
  EXPECT_THAT(DifferentLines("a\nb\nc\nd", "a\nc\nd"),
              ElementsAre("line 2: b", "  stored: (no line)"));
  EXPECT_THAT(DifferentLines("a\nc", "a\nb\nc"), ElementsAre("line 2: (no line)", "  stored: b"));
}

TEST(SourceDifference, ShowsThreeLines) {
  EXPECT_THAT(DifferentLines("1\n2\n3\n4", "5\n6\n7\n8"), SizeIs(6));
}

TEST(SourceDifference, ALongLineIsShownAroundItsFirstDifference) {
  const std::string same(500, 'x');
  const auto lines = DifferentLines(same + "a" + same, same + "b" + same);
  EXPECT_THAT(lines,
              ElementsAre("line 1: …" + std::string(40, 'x') + "a" + std::string(59, 'x'),
                          "  stored: …" + std::string(40, 'x') + "b" + std::string(59, 'x')));
}

TEST(SourceDifference, ALineOfTritonIRHasItsPlaceInTheProgram) {
  const std::string text =
      "#loc = loc(\"train.py\":29:0)\n"
      "    %1 = tt.load %p loc(#loc3)\n"
      "#loc2 = loc(\"train.py\":31:8)\n"
      "#loc3 = loc(\"x\"(#loc2))\n";
  std::string stored = text;
  stored.replace(stored.find("%p"), 2, "%q");
  EXPECT_THAT(DifferentLines(text, stored),
              ElementsAre("line 2 (train.py:31):     %1 = tt.load %p loc(#loc3)",
                          "  stored:     %1 = tt.load %q loc(#loc3)"));
}

// Its own location is that of the function.
TEST(SourceDifference, AConstantHasThePlaceOfItsFirstUse) {
  const std::string text =
      "    %cst = arith.constant 2.0 : f32 loc(#loc1)\n"
      "    %a = arith.addf %x, %cst_0 loc(#loc2)\n"
      "    %b = arith.mulf %a, %cst loc(#loc3)\n"
      "#loc1 = loc(unknown)\n"
      "#loc2 = loc(\"train.py\":7:4)\n"
      "#loc3 = loc(\"train.py\":8:4)\n";
  std::string stored = text;
  stored.replace(stored.find("2.0"), 3, "4.0");
  EXPECT_EQ(DifferentLines(text, stored).at(0),
            "line 1 (train.py:8):     %cst = arith.constant 2.0 : f32 loc(#loc1)");
}

TEST(SourceDifference, LocationsThatNameOneAnotherHaveNoPlace) {
  const std::string ring = "#loc1 = loc(#loc2)\n#loc2 = loc(#loc1)\n";
  EXPECT_EQ(DifferentLines("a loc(#loc1)\n" + ring, "b loc(#loc1)\n" + ring).at(0),
            "line 1: a loc(#loc1)");
}

}  // namespace
}  // namespace kiln::cli
