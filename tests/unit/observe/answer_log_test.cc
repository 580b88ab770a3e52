#include "daemon/observe/answer_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/base/log.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Logged(const absl::StatusOr<CompileResult>& answer,
                   const CompileJobPtr& job = MakeJob("a")) {
  testing::internal::CaptureStderr();
  CallContext context;
  context.principal.uid = 1000;
  LogAnswer(context, "train", job.get(), answer, std::chrono::milliseconds(1500));
  return testing::internal::GetCapturedStderr();
}

CompileResult With(Outcome outcome, CompileResult result) {
  result.outcome = outcome;
  return result;
}

TEST(AnswerLog, ACompileIsALine) {
  EXPECT_THAT(Logged(CompiledFrom(*MakeJob("a"))),
              HasSubstr("info compiled key=" + Digest::Of("a").Hex() +
                        " kernel=kernel target=cuda:90 toolchain=\"fake==1.0\" uid=1000 job=train "
                        "ms=0.0 code=OK why=\"\"\n"));
}

TEST(AnswerLog, AFailureIsALineWithCodeAndReason) {
  EXPECT_THAT(Logged(FailedWith("no such type")),
              AllOf(HasSubstr("info compile failed key="), HasSubstr(" ms=1500.0 code=INV"),
                    HasSubstr("no such type\"\n")));
  EXPECT_THAT(Logged(Internal("the compiler crashed twice")),
              AllOf(HasSubstr("info request failed key="),
                    HasSubstr("code=INTERNAL why=\"the compiler crashed twice\"\n")));
  EXPECT_THAT(Logged(DeadlineExceeded("the daemon's limit")), HasSubstr("info request failed"));
}

TEST(AnswerLog, ALongReasonIsCut) {
  const std::string log = Logged(Internal("{}", std::string(100'000, 'x')));
  EXPECT_THAT(log, HasSubstr("why=" + std::string(256, 'x') + "\n"));
  EXPECT_LT(Logged(FailedWith(std::string(100'000, 'x'))).size(), 600u);
}

TEST(AnswerLog, WhatCostsNoCompileIsForDebuggingAlone) {
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      With(Outcome::kHit, CompiledFrom(*MakeJob("a"))),
      With(Outcome::kJoined, CompiledFrom(*MakeJob("a"))),
      With(Outcome::kHit, FailedWith("remembered")),
      NotFound("not cached"),
      ResourceExhausted("full"),
      InvalidArgument("no such option")};
  for (const auto& answer : answers) EXPECT_EQ(Logged(answer), "");
  SetLogLevel("debug");
  for (const auto& answer : answers) EXPECT_THAT(Logged(answer), HasSubstr("debug "));
  EXPECT_THAT(Logged(answers.back(), nullptr), HasSubstr("key=\"\""));
  SetLogLevel("info");
}

}  // namespace
}  // namespace kiln
