#include "storage/base/nearest_word.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

const std::vector<std::string> kKnown = {"--option",   "--root",    "--timeout",
                                         "num_stages", "num_warps", "get"};

TEST(NearestWordTest, OneOrTwoLettersMayBeWrong) {
  EXPECT_EQ(NearestWord("--rot", kKnown), "--root");
  EXPECT_EQ(NearestWord("--rooot=/x", kKnown), "--root");
  EXPECT_EQ(NearestWord("num_wraps", kKnown), "num_warps");
  EXPECT_EQ(NearestWord("Num_Stage", kKnown), "num_stages");
  EXPECT_EQ(NearestWord("gte", kKnown), "get");
}

TEST(NearestWordTest, AWordThatWasCutShortIsNearest) {
  EXPECT_EQ(NearestWord("--opt", kKnown), "--option");
  EXPECT_EQ(NearestWord("num_", kKnown), "num_stages");
}

TEST(NearestWordTest, WhatIsFarFromAllWordsIsNone) {
  for (const char* word : {"", "x", "--verbose", "waves_per_eu"}) {
    EXPECT_EQ(NearestWord(word, kKnown), "") << word;
  }
  EXPECT_EQ(NearestWord(std::string(100'000, 'x'), kKnown), "");
  EXPECT_EQ(NearestWord("--rot", std::vector<std::string>()), "");
}

TEST(NearestWordTest, AMessageAsksForIt) {
  EXPECT_EQ(DidYouMean("--rot", kKnown), "; did you mean --root?");
  EXPECT_EQ(DidYouMean("--verbose", kKnown), "");
}

}  // namespace
}  // namespace kiln
