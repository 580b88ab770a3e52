#include "daemon/toolchain/decision_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/base/limits.h"

namespace kiln {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DecisionLogTest, ListsCandidatesWithTheirReasons) {
  DecisionLog log;
  EXPECT_EQ(log.ToString(), "");
  log.Add("a", "too old");
  log.Add("b", "");
  EXPECT_EQ(log.ToString(), "a: too old; b");
}

TEST(DecisionLogTest, CutsWhatIsLong) {
  DecisionLog log;
  log.Add(std::string(10'000, 'a'), std::string(10'000, 'b'));
  EXPECT_THAT(log.ToString(), HasSubstr("a...: b"));
  EXPECT_LE(log.ToString().size(), limits::kDecisionLogBytesMax);
}

TEST(DecisionLogTest, CountsWhatDoesNotFit) {
  DecisionLog log;
  log.Add("first", std::string(200, 'x'));
  for (int i = 0; i < 40; ++i) log.Add("next", std::string(200, 'x'));
  log.Add("short", "");
  EXPECT_THAT(log.ToString(), EndsWith("; and 39 more"));
  EXPECT_THAT(log.ToString(), Not(HasSubstr("short")));
  EXPECT_LE(log.ToString().size(), limits::kDecisionLogBytesMax + 20);
}

TEST(DecisionLogTest, WritesOnlyPrintableAscii) {
  EXPECT_EQ(ShortAscii("a\n\x1b[31m\xc3\xa4", 100), "a??[31m??");
  EXPECT_EQ(ShortAscii("abcdef", 6), "abcdef");
  EXPECT_EQ(ShortAscii("abcdefg", 6), "abc...");
}

}  // namespace
}  // namespace kiln
