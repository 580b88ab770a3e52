#include "daemon/chain/quarantining_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/kernel/compiler_crash.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using std::chrono::minutes;
using ::testing::HasSubstr;

class QuarantiningProviderTest : public testing::Test {
 protected:
  QuarantiningProviderTest() { fake_.FinishAtOnce(); }

  absl::StatusOr<CompileResult> Ask(std::string_view source = "a") {
    ResultProbe probe;
    provider_.Compile({}, MakeJob(source), probe.Done());
    return probe.Result();
  }
  void AnswerWith(const absl::StatusOr<CompileResult>& answer) {
    fake_.AnswerWith([answer](const CompileJob&) { return answer; });
  }

  FakeClock clock_;
  Quarantine quarantine_{minutes(10), clock_};
  FakeProvider fake_;
  QuarantiningProvider provider_{std::make_unique<BorrowedProvider>(fake_), quarantine_};
};

TEST_F(QuarantiningProviderTest, WhatCrashesTheCompilerIsNotTriedAgainForAWhile) {
  AnswerWith(MarkCompilerCrash(Internal("the compiler crashed (SIGSEGV)")));
  EXPECT_TRUE(absl::IsInternal(Ask().status()));
  const absl::Status refusal = Ask().status();
  EXPECT_EQ(fake_.started(), 1u);
  EXPECT_TRUE(absl::IsInternal(refusal));
  EXPECT_EQ(RetryAfter(refusal), minutes(10));
  EXPECT_THAT(std::string(Message(refusal)), HasSubstr("SIGSEGV"));
  EXPECT_THAT(std::string(Message(refusal)), HasSubstr("kiln evict " + MakeJob("a")->key.Hex()));

  EXPECT_FALSE(Ask("another").ok());
  EXPECT_EQ(fake_.started(), 2u);

  fake_.AnswerWith(CompiledFrom);
  clock_.Advance(minutes(10));
  EXPECT_TRUE(Ask().ok());
}

TEST_F(QuarantiningProviderTest, AnOperatorLiftsIt) {
  AnswerWith(MarkCompilerCrash(Internal("crashed")));
  EXPECT_FALSE(Ask().ok());
  EXPECT_TRUE(quarantine_.Lift(MakeJob("a")->key));
  fake_.AnswerWith(CompiledFrom);
  EXPECT_TRUE(Ask().ok());
}

TEST_F(QuarantiningProviderTest, WhatTheMachineEndedTwiceIsQuarantinedToo) {
  AnswerWith(FailedWith("ptxas died of SIGKILL", /*deterministic=*/false));
  EXPECT_TRUE(Ask().ok());
  EXPECT_THAT(std::string(Message(Ask().status())), HasSubstr("SIGKILL"));
  EXPECT_EQ(fake_.started(), 1u);
}

// Neither the source's fault nor its compiler's end.
TEST_F(QuarantiningProviderTest, OtherErrorsAreNoReason) {
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      Internal("no crash"), Unavailable("no zygote"),     FailedPrecondition("no jail"),
      Cancelled("gone"),    DeadlineExceeded("too long"), FailedWith("does not parse")};
  for (const auto& answer : answers) {
    AnswerWith(answer);
    Ask().IgnoreError();
  }
  EXPECT_EQ(fake_.started(), answers.size());
  EXPECT_EQ(quarantine_.size(), 0u);
}

TEST_F(QuarantiningProviderTest, TheMarkSurvivesAnnotation) {
  AnswerWith(Annotate(MarkCompilerCrash(Internal("crashed")), "pooled(triton-3.6.0)"));
  EXPECT_FALSE(Ask().ok());
  EXPECT_EQ(quarantine_.size(), 1u);
}

TEST_F(QuarantiningProviderTest, PassesRaisesOnAndDescribesItself) {
  provider_.Raise(Digest::Of("a"), CallContext());
  EXPECT_EQ(fake_.raises().size(), 1u);
  EXPECT_EQ(provider_.Describe(), "quarantining(fake)");
}

}  // namespace
}  // namespace kiln
