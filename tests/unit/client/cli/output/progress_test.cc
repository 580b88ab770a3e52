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
  progress.Update(10, {.text = "note"});
  const std::string first = err_.str();
  EXPECT_THAT(first, HasSubstr("[===                           ] 10/100"));
  progress.Update(11, {.text = "note"});
  EXPECT_EQ(err_.str(), first);
  clock_.Advance(std::chrono::milliseconds(100));
  progress.Update(50, {.text = "note"});
  EXPECT_THAT(err_.str(), HasSubstr("50/100, 390.0/s, 128.2 ms left  note"));
}

TEST_F(ProgressTest, WipesItselfAway) {
  {
    Progress progress(console_, clock_, 2);
    progress.Update(2);
  }
  EXPECT_TRUE(err_.str().ends_with("\r\x1b[K"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, PrintsNothingWhereNobodyLooks) {
  console_.progress = false;
  {
    Progress progress(console_, clock_, 2);
    progress.Update(1);
  }
  EXPECT_EQ(err_.str(), "");
}

TEST_F(ProgressTest, PrintsALineNowAndThenIntoALog) {
  console_.progress = false;
  Progress progress(console_, clock_, 100, ProgressLines::kText);
  const ProgressNote note{.failed = 2, .waiting_for = "k\n"};
  progress.Update(0, note);
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(20, note);
  progress.Update(21, note);
  EXPECT_EQ(err_.str(), "20/100, 2.0/s, 40.00 s left  2 failed  waiting for k\\x0a\n");
}

TEST_F(ProgressTest, WhatIsFoundAtOnceDoesNotCountForTheRateForEver) {
  console_.progress = false;
  Progress progress(console_, clock_, 1000, ProgressLines::kText);
  progress.Update(0);
  clock_.Advance(std::chrono::seconds(1));
  for (uint64_t done = 900; done < 909; ++done) {
    progress.Update(done);
    clock_.Advance(std::chrono::seconds(1));
  }
  progress.Update(909);
  EXPECT_EQ(err_.str(), "909/1000, 1.0/s, 1 min 31 s left\n");
}

TEST_F(ProgressTest, WithoutProgressThereIsNoRate) {
  console_.progress = false;
  Progress progress(console_, clock_, std::nullopt, ProgressLines::kText);
  progress.Update(0);
  progress.SetTotal(201);
  for (int tick = 0; tick < 10; ++tick) {
    progress.Update(200, {.waiting_for = "k"});
    clock_.Advance(std::chrono::seconds(1));
  }
  progress.Update(200, {.waiting_for = "k"});
  EXPECT_EQ(err_.str(), "200/201  waiting for k\n");
}

TEST_F(ProgressTest, ATotalThatIsKnownLateGivesTheTimeThatIsLeft) {
  console_.progress = false;
  Progress progress(console_, clock_, std::nullopt, ProgressLines::kText);
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(20);
  progress.SetTotal(60);
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(40);
  EXPECT_EQ(err_.str(), "20, 2.0/s\n40/60, 2.0/s, 10.00 s left\n");
}

TEST_F(ProgressTest, EventsAreJsonOnTheOutputAlsoWhereThereIsATerminal) {
  Progress progress(console_, clock_, 100, ProgressLines::kJson);
  progress.Update(0);
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(0, {.text = "the daemon is busy"});
  clock_.Advance(std::chrono::seconds(10));
  progress.Update(30, {.failed = 1, .waiting_for = "k"});
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(
      out_.str(),
      R"({"progress":{"done":0,"total":100,"failed":0,"per_second":null,"left_ms":null,"waiting_for":null,"note":"the daemon is busy"}})"
      "\n"
      R"({"progress":{"done":30,"total":100,"failed":1,"per_second":3.0,"left_ms":23333,"waiting_for":"k","note":null}})"
      "\n");
}

TEST_F(ProgressTest, CountsWhereTheTotalIsNotKnown) {
  Progress progress(console_, clock_, std::nullopt);
  progress.Update(7);
  EXPECT_THAT(err_.str(), HasSubstr("\r\x1b[K7"));
}

TEST_F(ProgressTest, SurvivesATotalThatWasTooLow) {
  Progress progress(console_, clock_, 2);
  progress.Update(5);
  EXPECT_THAT(err_.str(), HasSubstr("5/2"));
}

}  // namespace
}  // namespace kiln::cli
