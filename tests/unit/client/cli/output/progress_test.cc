#include "client/cli/output/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/testing/fake_clock.h"

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() { console_.progress = true; }

  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{out_, err_};
  FakeClock clock_;
};

TEST_F(ProgressTest, DrawsTenTimesASecond) {
  Progress progress(console_, clock_, 100);
  progress.Update(10, "note");
  const std::string first = err_.str();
  EXPECT_THAT(first, HasSubstr("[===                           ] 10/100"));
  progress.Update(11, "note");
  EXPECT_EQ(err_.str(), first);
  clock_.Advance(std::chrono::milliseconds(100));
  progress.Update(50, "note");
  EXPECT_THAT(err_.str(), HasSubstr("50/100, 500.0/s, 100.0 ms left  note"));
}

TEST_F(ProgressTest, WipesItselfAway) {
  {
    Progress progress(console_, clock_, 2);
    progress.Update(2, "");
  }
  EXPECT_TRUE(err_.str().ends_with("\r\x1b[K"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, PrintsNothingWhereNobodyLooks) {
  console_.progress = false;
  {
    Progress progress(console_, clock_, 2);
    progress.Update(1, "");
  }
  EXPECT_EQ(err_.str(), "");
}

TEST_F(ProgressTest, PrintsALineNowAndThenIntoALog) {
  console_.progress = false;
  Progress progress(console_, clock_, 100, std::chrono::seconds(10));
  progress.Update(1, "now k");
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(20, "now k");
  progress.Update(21, "now k");
  EXPECT_EQ(err_.str(), "20/100, 2.0/s, 40.00 s left  now k\n");
}

TEST_F(ProgressTest, CountsWhereTheTotalIsNotKnown) {
  Progress progress(console_, clock_, std::nullopt);
  progress.Update(7, "");
  EXPECT_THAT(err_.str(), HasSubstr("\r\x1b[K7"));
}

TEST_F(ProgressTest, SurvivesATotalThatWasTooLow) {
  Progress progress(console_, clock_, 2);
  progress.Update(5, "");
  EXPECT_THAT(err_.str(), HasSubstr("5/2"));
}

}  // namespace
}  // namespace kiln::cli
