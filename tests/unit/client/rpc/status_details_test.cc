#include "client/rpc/status_details.h"

#include <gtest/gtest.h>

#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

TEST(StatusDetails, OkIsOk) {
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_TRUE(FromStreamAnswer({}).ok());
}

TEST(StatusDetails, DetailsBecomePayloads) {
  v1::RetryHint hint;
  hint.set_retry_after_ms(250);
  const absl::Status status =
      FromGrpc(StatusWithDetail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", hint));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status), "full");
  EXPECT_EQ(RetryAfterOf(status), std::chrono::milliseconds(250));
  EXPECT_FALSE(DiagnosticsOf(status).has_value());
}

TEST(StatusDetails, GarbageInTheDetailsCostsOnlyTheDetails) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "words", "\xff\xff garbage"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Message(status), "words");
  EXPECT_FALSE(DiagnosticsOf(status).has_value());
}

TEST(StatusDetails, ACallThatGrpcEndedForWantOfMemoryIsWorthRepeating) {
  const absl::Status status =
      FromGrpc({grpc::StatusCode::RESOURCE_EXHAUSTED, "Received RST_STREAM with error code 11"});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_FALSE(IsCompilersVerdict(status));
}

TEST(StatusDetails, OnlyCompilerDiagnosticsAreFinal) {
  v1::CompileStreamResponse answer;
  answer.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(IsCompilersVerdict(FromStreamAnswer(answer)));
  answer.mutable_diagnostics()->set_stage("ptx");
  EXPECT_TRUE(IsCompilersVerdict(FromStreamAnswer(answer)));
  answer.set_code(static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_FALSE(IsCompilersVerdict(FromStreamAnswer(answer)));
  EXPECT_FALSE(IsCompilersVerdict(absl::UnavailableError("nobody there")));
  EXPECT_FALSE(IsCompilersVerdict(absl::ResourceExhaustedError("the queue is full")));
}

TEST(StatusDetails, ACodeOfANewerDaemonIsUnknown) {
  v1::CompileStreamResponse answer;
  for (const int code : {17, 1000, -1}) {
    answer.set_code(code);
    EXPECT_EQ(FromStreamAnswer(answer).code(), absl::StatusCode::kUnknown) << code;
  }
}

TEST(StatusDetails, AStreamsAnswerCarriesTheSame) {
  v1::CompileStreamResponse answer;
  answer.set_code(8);
  answer.set_message("full");
  answer.set_retry_after_ms(7);
  answer.mutable_diagnostics()->set_stage("cubin");
  const absl::Status status = FromStreamAnswer(answer);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterOf(status), std::chrono::milliseconds(7));
  EXPECT_EQ(DiagnosticsOf(status)->stage(), "cubin");
}

TEST(StatusDetails, TheKeyComesInAnyOfThreeWays) {
  v1::RequestKey request;
  request.set_key("a");
  EXPECT_EQ(RequestKeyOf(FromGrpc(StatusWithDetail(grpc::StatusCode::INTERNAL, "x", request))),
            "a");
  v1::CompileStreamResponse answer;
  answer.set_code(13);
  EXPECT_EQ(RequestKeyOf(FromStreamAnswer(answer)), "");
  answer.mutable_diagnostics()->set_key("b");
  EXPECT_EQ(RequestKeyOf(FromStreamAnswer(answer)), "b");
  answer.set_key("c");
  EXPECT_EQ(RequestKeyOf(FromStreamAnswer(answer)), "c");
}

TEST(StatusDetails, SurviveAnnotation) {
  v1::CompileStreamResponse answer;
  answer.set_code(3);
  answer.mutable_diagnostics()->set_line(4);
  EXPECT_EQ(DiagnosticsOf(Annotate(FromStreamAnswer(answer), "kernel"))->line(), 4);
}

}  // namespace
}  // namespace kiln
