#include "storage/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

TEST(Utf8, AcceptsEveryLengthAtItsBounds) {
  for (const char* text :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8, RefusesWhatIsBeyondItsBounds) {
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe1\x80", "\xf1\x80\x80",
        "\xc2\x41", "\xe1\x80\x41", "\xf1\x80\x80\x41"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8, LooksPastTheBlocksOfEight) {
  for (size_t at = 0; at < 40; ++at) {
    std::string text(40, 'x');
    EXPECT_TRUE(IsValidUtf8(text));
    text[at] = '\xff';
    EXPECT_FALSE(IsValidUtf8(text)) << at;
    text.replace(at, 1, "\xc3\xa4");
    EXPECT_TRUE(IsValidUtf8(text)) << at;
  }
}

}  // namespace
}  // namespace kiln
