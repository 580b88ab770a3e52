#include "daemon/rpc/compile_stream_call.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <set>
#include <thread>

#include "tests/testing/artifacts.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

class CompileStreamCallTest : public ServiceTest {
 protected:
  v1::CompileStreamRequest Item(uint64_t id) {
    v1::CompileStreamRequest item;
    item.set_id(id);
    *item.mutable_request() = Request("kernel " + std::to_string(id));
    return item;
  }

  std::unique_ptr<v1::KernelService::Stub> stub_ = v1::KernelService::NewStub(Connect());
  grpc::ClientContext context_;
};

TEST_F(CompileStreamCallTest, AnItemIsReadAsProtobufReadsIt) {
  v1::CompileStreamRequest message = Item(300);
  message.set_takes_more(true);
  *message.add_more() = Item(301);
  std::string bytes = message.SerializeAsString();
  bytes += std::string("\x9a\x03\x02hi", 5);  // a field of a later version
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const std::string_view part = std::string_view(bytes).substr(0, size);
    v1::CompileStreamRequest parsed;
    const bool is_message = parsed.ParseFromArray(part.data(), static_cast<int>(size));
    const auto read = ReadStreamMessage(part);
    ASSERT_EQ(read.has_value(), is_message) << size;
    if (!is_message) continue;
    EXPECT_EQ(read->takes_more, parsed.takes_more());
    ASSERT_EQ(read->items.size(), 1u + static_cast<size_t>(parsed.more_size()));
    EXPECT_EQ(read->items[0].id, parsed.id());
    EXPECT_EQ(read->items[0].request, parsed.request().SerializeAsString());
    if (parsed.more_size() == 0) continue;
    EXPECT_EQ(read->items[1].id, parsed.more(0).id());
    EXPECT_EQ(read->items[1].request, parsed.more(0).request().SerializeAsString());
  }
  EXPECT_FALSE(ReadStreamMessage("\x12\xff\xff\xff\xff\x0f").has_value());
}

TEST_F(CompileStreamCallTest, AMessageHasABoundedNumberOfItems) {
  v1::CompileStreamRequest message = Item(0);
  while (message.more_size() + 1 < static_cast<int>(limits::kStreamMessageRequestsMax)) {
    *message.add_more() = Item(1);
  }
  EXPECT_TRUE(ReadStreamMessage(message.SerializeAsString()).has_value());
  *message.add_more() = Item(1);
  EXPECT_FALSE(ReadStreamMessage(message.SerializeAsString()).has_value());
}

TEST_F(CompileStreamCallTest, AMessageThatCannotBeReadEndsTheStreamWithAnError) {
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(Item(1));
  AwaitHeld(1);
  v1::CompileStreamRequest message = Item(2);
  for (size_t i = 0; i < limits::kStreamMessageRequestsMax; ++i) *message.add_more() = Item(3 + i);
  stream->Write(message);
  provider_.FinishOne();
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 1u);
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("more than 64 requests"));
}

TEST_F(CompileStreamCallTest, RequestsOfOneMessageAreAnsweredInOneMessage) {
  provider_.FinishAtOnce();
  v1::CompileStreamRequest message = Item(1);
  message.set_takes_more(true);
  *message.add_more() = Item(2);
  *message.add_more() = Item(2);
  message.mutable_more(1)->set_id(3);
  message.mutable_more(1)->mutable_request()->clear_target();
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(message);
  stream->WritesDone();
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.takes_more());
  EXPECT_EQ(answer.id(), 1u);
  EXPECT_TRUE(answer.has_response());
  ASSERT_EQ(answer.more_size(), 2);
  EXPECT_EQ(answer.more(0).id(), 2u);
  EXPECT_TRUE(answer.more(0).has_response());
  EXPECT_EQ(answer.more(1).id(), 3u);
  EXPECT_EQ(answer.more(1).code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, AClientThatDoesNotSaySoGetsOneAnswerInAMessage) {
  const auto stream = stub_->CompileStream(&context_);
  constexpr uint64_t kCount = 5;
  for (uint64_t id = 1; id <= kCount; ++id) ASSERT_TRUE(stream->Write(Item(id)));
  AwaitHeld(kCount);
  provider_.FinishAll();
  v1::CompileStreamResponse answer;
  for (uint64_t id = 1; id <= kCount; ++id) {
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_FALSE(answer.takes_more());
    EXPECT_EQ(answer.more_size(), 0);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, ManyHitsInOneGo) {
  provider_.FinishAtOnce();
  const auto stream = stub_->CompileStream(&context_);
  constexpr uint64_t kCount = 1000;
  std::thread writer([&] {
    for (uint64_t id = 1; id <= kCount; ++id) EXPECT_TRUE(stream->Write(Item(id)));
    stream->WritesDone();
  });
  std::set<uint64_t> ids;
  v1::CompileStreamResponse answer;
  while (stream->Read(&answer)) {
    EXPECT_EQ(answer.code(), 0) << answer.message();
    ids.insert(answer.id());
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(ids.size(), kCount);
}

TEST_F(CompileStreamCallTest, ABadRequestDoesNotEndTheStream) {
  provider_.FinishAtOnce();
  const auto stream = stub_->CompileStream(&context_);
  v1::CompileStreamRequest bad = Item(1);
  bad.mutable_request()->clear_target();
  stream->Write(bad);
  stream->Write(Item(2));
  stream->WritesDone();
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 1u);
  EXPECT_EQ(answer.code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(answer.message(), ::testing::HasSubstr("target"));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 2u);
  EXPECT_TRUE(answer.has_response());
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, AnIdThatIsInFlightIsRefused) {
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(Item(1));
  AwaitHeld(1);
  v1::CompileStreamResponse answer;
  for (int again = 0; again < 2; ++again) {
    stream->Write(Item(1));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
    EXPECT_THAT(answer.message(), ::testing::HasSubstr("id 1"));
  }
  provider_.FinishAtOnce();
  provider_.FinishAll();
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), 0) << answer.message();
  stream->Write(Item(1));  // it is free now
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.code(), 0) << answer.message();
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, AnswersComeAsTheyFinish) {
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(Item(1));
  AwaitHeld(1);
  v1::CompileStreamRequest refused = Item(2);
  refused.mutable_request()->clear_source();
  stream->Write(refused);
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 2u);
  provider_.FinishOne();
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.id(), 1u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, StopsReadingWhileTooManyAreInFlight) {
  const auto stream = stub_->CompileStream(&context_);
  constexpr uint64_t kCount = limits::kStreamInFlightMax + 10;
  for (uint64_t id = 1; id <= kCount; ++id) ASSERT_TRUE(stream->Write(Item(id)));
  AwaitHeld(limits::kStreamInFlightMax);
  // The one after them is read only when an answer has left.
  EXPECT_EQ(provider_.started(), limits::kStreamInFlightMax);
  v1::CompileStreamResponse answer;
  provider_.FinishOne();
  ASSERT_TRUE(stream->Read(&answer));
  AwaitHeld(limits::kStreamInFlightMax);
  EXPECT_EQ(provider_.started(), limits::kStreamInFlightMax + 1);
  provider_.FinishAtOnce();
  provider_.FinishAll();
  stream->WritesDone();
  uint64_t answers = 1;
  while (stream->Read(&answer)) ++answers;
  EXPECT_EQ(answers, kCount);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, ClientThatStopsReadingStopsTheStream) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([](const CompileJob& job) -> absl::StatusOr<CompileResult> {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.back().blob = Blob::FromBytes(Noise(1, limits::kMiB));
    CompileResult result;
    result.value = std::shared_ptr<const Artifact>(std::move(artifact));
    return result;
  });
  const auto stream = stub_->CompileStream(&context_);
  constexpr uint64_t kCount = 60;
  std::thread writer([&] {
    for (uint64_t id = 1; id <= kCount; ++id) stream->Write(Item(id));
    stream->WritesDone();
  });
  writer.join();  // small requests: they fit in the transport's windows
  // Unread answers of 1 MiB each: what the transport took, one being written, and one over the
  // limit.
  size_t seen = 0;
  for (int quiet = 0; quiet < 1000; ++quiet) {
    if (provider_.started() != std::exchange(seen, provider_.started())) quiet = 0;
    std::this_thread::yield();
  }
  EXPECT_LT(seen, kCount);
  v1::CompileStreamResponse answer;
  uint64_t answers = 0;
  while (stream->Read(&answer)) ++answers;
  EXPECT_EQ(answers, kCount);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, ClientThatLeavesCancelsEverything) {
  const auto stream = stub_->CompileStream(&context_);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(stream->Write(Item(id)));
  AwaitHeld(3);
  context_.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  while (provider_.cancelled() < 3) std::this_thread::yield();
  gate_.Close();
  EXPECT_TRUE(gate_.AwaitEmpty(SteadyTime::max()));
}

TEST_F(CompileStreamCallTest, FullDiagnosticsTravelOnAStream) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([](const CompileJob&) {
    CompileResult failed = FailedWith("no");
    auto failure = std::make_shared<CompileFailure>(*failed.failure());
    failure->output = std::string(limits::kDiagnosticsBytesMax + 5, 'y');
    failed.value = std::shared_ptr<const CompileFailure>(std::move(failure));
    return absl::StatusOr<CompileResult>(failed);
  });
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(Item(1));
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.diagnostics().output().size(), limits::kDiagnosticsBytesMax);
  EXPECT_EQ(answer.key(), answer.diagnostics().key());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CompileStreamCallTest, AnErrorHasTheKeyOfItsRequest) {
  provider_.FinishAtOnce();
  Digest key;
  provider_.AnswerWith([&](const CompileJob& job) -> absl::StatusOr<CompileResult> {
    key = job.key;
    return Internal("the compiler crashed");
  });
  const auto stream = stub_->CompileStream(&context_);
  stream->Write(Item(1));
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.key(), key.Bytes());
  v1::CompileStreamRequest empty;
  stream->Write(empty);
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_NE(answer.code(), 0);
  EXPECT_EQ(answer.key(), "");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace kiln
