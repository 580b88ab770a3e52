#include "daemon/messages/text.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(ToUtf8, KeepsWhatIsWellFormed) {
  for (const char* text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x94\xa5", "a\n\t"}) {
    EXPECT_EQ(ToUtf8(text), text);
  }
}

TEST(ToUtf8, ReplacesEverythingElse) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(ToUtf8("a\xff"
                   "b"),
            "a" + bad + "b");
  EXPECT_EQ(ToUtf8("\xc3"), bad);                                // cut short
  EXPECT_EQ(ToUtf8("\xc0\x80"), bad + bad);                      // overlong
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80"), bad + bad + bad + bad);  // beyond U+10FFFF
}

TEST(CutForTrailer, CountsTheEncodedForm) {
  EXPECT_EQ(CutForTrailer("plain", 10), "plain");
  EXPECT_EQ(CutForTrailer("0123456789", 4), "0123");
  EXPECT_EQ(CutForTrailer("a\nb", 4), "a\n");                    // 1 + 3 + 1
  EXPECT_EQ(CutForTrailer("\xc3\xa4\xc3\xa4", 11), "\xc3\xa4");  // 6 each, never half a character
  EXPECT_EQ(CutForTrailer("100%", 5), "100");
}

TEST(Excerpt, CutsLongNames) {
  EXPECT_EQ(Excerpt("short"), "short");
  EXPECT_LT(Excerpt(std::string(1000, 'x')).size(), 80u);
}

}  // namespace
}  // namespace kiln
