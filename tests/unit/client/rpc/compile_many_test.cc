#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "client/rpc/client.h"
#include "storage/base/limits.h"
#include "storage/base/status.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

using Stream = FakeKernelService::Stream;

v1::CompileStreamResponse AnswerTo(const v1::CompileStreamRequest& request) {
  v1::CompileStreamResponse response;
  response.set_id(request.id());
  *response.mutable_response() = kiln::AnswerTo(request.request());
  return response;
}

class CompileManyTest : public ::testing::Test {
 protected:
  // Sends requests "0" to "count-1" and notes each answer.
  absl::Status Run(uint64_t count, ManyOptions options = {}) {
    auto client = Client::Connect(options_);
    if (!client.ok()) return client.status();
    return (*client)->CompileMany(
        [&](v1::CompileRequest& request) {
          await_(taken_);
          if (taken_ == count) return false;
          request = RequestFor(sources_.empty() ? std::to_string(taken_) : sources_.at(taken_));
          ++taken_;
          const std::lock_guard lock(mutex_);
          in_flight_max_ = std::max(in_flight_max_, taken_ - answers_.size());
          return true;
        },
        [&](uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
          const std::lock_guard lock(mutex_);
          answered_.notify_all();
          EXPECT_TRUE(answers_.emplace(index, std::move(answer)).second)
              << index << " was answered twice";
        },
        options);
  }

  // For a source that blocks; false where the answer does not come.
  bool AwaitAnswerTo(uint64_t index) {
    std::unique_lock lock(mutex_);
    return answered_.wait_for(lock, std::chrono::seconds(20),
                              [&] { return answers_.count(index) == 1; });
  }

  void ExpectAllGood(uint64_t count) {
    ASSERT_EQ(answers_.size(), count);
    for (const auto& [index, answer] : answers_) {
      ASSERT_TRUE(answer.ok()) << index << ": " << answer.status();
      EXPECT_EQ(answer->stages(0).content(), "cubin of " + std::to_string(index));
    }
  }

  FakeDaemon daemon_;
  ConnectOptions options_ = daemon_.Options();
  std::vector<std::string> sources_;
  std::function<void(uint64_t)> await_ = [](uint64_t) {};  // before that request is taken
  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<uint64_t, absl::StatusOr<v1::CompileResponse>> answers_;
  uint64_t taken_ = 0;
  uint64_t in_flight_max_ = 0;
};

TEST_F(CompileManyTest, EmptyBatchSucceeds) {
  EXPECT_TRUE(Run(0).ok());
  EXPECT_TRUE(answers_.empty());
}

TEST_F(CompileManyTest, ThousandsWithFewInFlight) {
  EXPECT_TRUE(Run(5000).ok());
  ExpectAllGood(5000);
  EXPECT_LE(in_flight_max_, ManyOptions().in_flight_max);
  EXPECT_EQ(daemon_.kernels().streams, 1);
}

TEST_F(CompileManyTest, ADaemonThatTakesMoreGetsManyRequestsInAMessage) {
  std::atomic<int> messages = 0;
  daemon_.kernels().on_stream = [&](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      ++messages;
      EXPECT_TRUE(request.takes_more());
      v1::CompileStreamResponse answer = AnswerTo(request);
      answer.set_takes_more(true);
      EXPECT_LE(request.more_size() + 1, static_cast<int>(limits::kStreamMessageRequestsMax));
      for (const v1::CompileStreamRequest& each : request.more()) {
        *answer.add_more() = AnswerTo(each);
      }
      stream->Write(answer);
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(1000).ok());
  ExpectAllGood(1000);
  EXPECT_LT(messages, 1000);
}

TEST_F(CompileManyTest, KeepsToTheCallersLimitInFlight) {
  ManyOptions options;
  options.in_flight_max = 3;
  EXPECT_TRUE(Run(50, options).ok());
  ExpectAllGood(50);
  EXPECT_LE(in_flight_max_, 3u);
}

TEST_F(CompileManyTest, BytesInFlightAreBoundedToo) {
  // Two of 15 MiB are more than 20 MiB.
  sources_.assign(12, std::string(15 * limits::kMiB, ' '));
  daemon_.kernels().on_stream = [](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      request.mutable_request()->mutable_source()->set_text("short");
      stream->Write(AnswerTo(request));
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(12).ok());
  EXPECT_EQ(answers_.size(), 12u);
  EXPECT_LE(in_flight_max_, 3u);
}

TEST_F(CompileManyTest, AnswersComeWhileTheSourceBlocks) {
  await_ = [&](uint64_t index) {
    if (index > 0) {
      EXPECT_TRUE(AwaitAnswerTo(index - 1));
    }
  };
  EXPECT_TRUE(Run(5).ok());
  ExpectAllGood(5);
  EXPECT_EQ(daemon_.kernels().streams, 1);
}

TEST_F(CompileManyTest, ABrokenStreamFailsWhatIsUnderWayBeforeTheSourceReturns) {
  daemon_.kernels().on_stream = [](Stream*) {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no");
  };
  await_ = [&](uint64_t index) {
    if (index == 1) {
      EXPECT_TRUE(AwaitAnswerTo(0));
    }
    EXPECT_LE(index, 1u) << "the source was asked again";
  };
  EXPECT_EQ(Run(3).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_.at(1).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(CompileManyTest, ADeadlineEndsABatchWhoseSourceBlocks) {
  ManyOptions options;
  options.call.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  await_ = [&](uint64_t index) {
    constexpr auto kNoticed = std::chrono::milliseconds(300);
    if (index == 1) std::this_thread::sleep_until(*options.call.deadline + kNoticed);
  };
  EXPECT_EQ(Run(10, options).code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_.at(0).ok()) << answers_.at(0).status();
  EXPECT_EQ(answers_.at(1).status().code(), absl::StatusCode::kDeadlineExceeded);
}

// The daemon may be stopped, or be another one, while the source has nothing.
TEST_F(CompileManyTest, ADaemonThatFallsSilentBetweenRequestsIsAskedAgain) {
  options_.answer_budget = std::chrono::milliseconds(100);
  const auto given_up = std::make_shared<Gate>();
  daemon_.kernels().on_stream = [&](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) stream->Write(AnswerTo(request));
    given_up->Open();
    return grpc::Status::OK;
  };
  const auto is_silent = std::make_shared<std::atomic<bool>>(false);
  daemon_.kernels().on_lookup = [given_up, is_silent](const auto&, auto*) {
    if (*is_silent) given_up->Await();
    return grpc::Status::OK;
  };
  await_ = [&](uint64_t index) {
    if (index != 1) return;
    EXPECT_TRUE(AwaitAnswerTo(0));
    *is_silent = true;
    given_up->Await();
  };
  EXPECT_TRUE(Run(2).ok());
  ExpectAllGood(2);
  EXPECT_EQ(daemon_.kernels().streams, 2);
}

TEST_F(CompileManyTest, AnswersComeInAnyOrder) {
  daemon_.kernels().on_stream = [](Stream* stream) {
    std::vector<v1::CompileStreamRequest> held;
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      held.push_back(request);
      if (held.size() < 5) continue;
      for (; !held.empty(); held.pop_back()) stream->Write(AnswerTo(held.back()));
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(100).ok());
  ExpectAllGood(100);
}

TEST_F(CompileManyTest, ABadRequestDoesNotEndTheStream) {
  daemon_.kernels().on_stream = [](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response = AnswerTo(request);
      if (request.request().source().text() == "3") {
        response.clear_response();
        response.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
        response.set_message("does not parse");
        response.mutable_diagnostics()->set_line(7);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(10).ok());
  ASSERT_EQ(answers_.size(), 10u);
  const absl::Status status = answers_.at(3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DiagnosticsOf(status)->line(), 7);
  EXPECT_EQ(std::count_if(answers_.begin(), answers_.end(),
                          [](const auto& entry) { return entry.second.ok(); }),
            9);
}

TEST_F(CompileManyTest, ABlobThatIsNotWhatItClaimsFailsItsRequestAlone) {
  daemon_.kernels().on_stream = [](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response = AnswerTo(request);
      if (request.id() == 1) response.mutable_response()->mutable_stages(0)->set_content("bad");
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(3).ok());
  EXPECT_EQ(answers_.at(1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(answers_.at(0).ok());
  EXPECT_TRUE(answers_.at(2).ok());
}

TEST_F(CompileManyTest, ABrokenStreamGoesOnWhereItWas) {
  std::mutex mutex;
  std::map<std::string, int> answered;
  daemon_.kernels().on_stream = [&](Stream* stream) {
    v1::CompileStreamRequest request;
    for (int i = 0; i < 100 && stream->Read(&request); ++i) {
      const std::lock_guard lock(mutex);
      ++answered[request.request().source().text()];
      stream->Write(AnswerTo(request));
    }
    if (answered.size() < 500) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    while (stream->Read(&request)) stream->Write(AnswerTo(request));
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(1000).ok());
  ExpectAllGood(1000);
  EXPECT_GE(daemon_.kernels().streams, 5);
}

TEST_F(CompileManyTest, AStreamThatEndsTooSoonIsRepeated) {
  daemon_.kernels().on_stream = [&](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      stream->Write(AnswerTo(request));
      if (daemon_.kernels().streams == 1) return grpc::Status::OK;
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(20).ok());
  ExpectAllGood(20);
}

TEST_F(CompileManyTest, AStreamThatNeverWorksEndsWithAnAnswerForEverythingTaken) {
  daemon_.kernels().on_stream = [](Stream*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no");
  };
  EXPECT_EQ(Run(1000).code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(answers_.size(), ManyOptions().in_flight_max);
  for (const auto& [index, answer] : answers_) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << index;
  }
  EXPECT_EQ(daemon_.kernels().streams, options_.retry.attempts_max);
}

TEST_F(CompileManyTest, ARefusedStreamIsNotRepeated) {
  daemon_.kernels().on_stream = [](Stream*) {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no");
  };
  EXPECT_EQ(Run(10).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(daemon_.kernels().streams, 1);
}

TEST_F(CompileManyTest, ARequestThatMayBeRepeatedIsRepeated) {
  std::set<std::string> refused;
  daemon_.kernels().on_stream = [&](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response = AnswerTo(request);
      if (refused.insert(request.request().source().text()).second) {
        response.clear_response();
        response.set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
        response.set_message("queue full");
        response.set_retry_after_ms(1);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(30).ok());
  ExpectAllGood(30);
}

TEST_F(CompileManyTest, ASourceOverTheLimitIsAnsweredHere) {
  sources_ = {"0", std::string(limits::kSourceBytesMax + 1, ' '), "2"};
  EXPECT_TRUE(Run(3).ok());
  ASSERT_EQ(answers_.size(), 3u);
  EXPECT_TRUE(answers_.at(0).ok());
  EXPECT_EQ(answers_.at(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(answers_.at(2).ok());
}

TEST_F(CompileManyTest, ASinkThatThrowsWhileRequestsAreLentGetsItsExceptionBack) {
  daemon_.kernels().on_stream = [](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse answer = AnswerTo(request);
      answer.set_takes_more(true);
      stream->Write(answer);
    }
    return grpc::Status::OK;
  };
  // The last is answered here, when the message has the one before it.
  sources_ = {"0", "1", std::string(limits::kSourceBytesMax + 1, ' ')};
  Gate is_answered;
  Gate are_taken;
  size_t taken = 0;
  const auto next = [&](v1::CompileRequest& request) {
    if (taken == 1) is_answered.Await();
    if (taken == sources_.size()) return are_taken.Open(), false;
    request = RequestFor(sources_[taken++]);
    return true;
  };
  const auto sink = [&](uint64_t index, const absl::StatusOr<v1::CompileResponse>&) {
    if (index > 0) throw std::runtime_error(std::to_string(index));
    is_answered.Open();
    are_taken.Await();
  };
  const auto client = Client::Connect(options_);
  ASSERT_TRUE(client.ok());
  try {
    (void)(*client)->CompileMany(next, sink);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& thrown) {
    EXPECT_STREQ(thrown.what(), "2");
  }
}

TEST_F(CompileManyTest, AnAnswerToNothingIsIgnored) {
  daemon_.kernels().on_stream = [](Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse stray = AnswerTo(request);
      stray.set_id(request.id() + 1000);
      stream->Write(stray);
      stream->Write(AnswerTo(request));
      stream->Write(AnswerTo(request));
    }
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Run(10).ok());
  ExpectAllGood(10);
}

// A stream that reads everything and answers nothing, until the call ends.
grpc::Status Swallow(Stream* stream) {
  v1::CompileStreamRequest request;
  while (stream->Read(&request)) {
  }
  return grpc::Status::OK;
}

TEST_F(CompileManyTest, ADeadlineEndsIt) {
  daemon_.kernels().on_stream = Swallow;
  ManyOptions options;
  options.call.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  EXPECT_EQ(Run(10, options).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(answers_.size(), taken_);
}

TEST_F(CompileManyTest, ADaemonThatFallsSilentIsGivenUp) {
  options_.answer_budget = std::chrono::milliseconds(100);
  daemon_.kernels().on_stream = Swallow;
  const auto gate = std::make_shared<Gate>();
  // The first is the sign of life that Connect asks for.
  const auto lookups = std::make_shared<std::atomic<int>>(0);
  daemon_.kernels().on_lookup = [gate, lookups](const auto&, auto*) {
    if (lookups->fetch_add(1) > 0) gate->Await();
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run(10).code(), absl::StatusCode::kUnavailable);
  gate->Open();
  EXPECT_EQ(answers_.size(), taken_);
  EXPECT_EQ(daemon_.kernels().streams, 1);
}

}  // namespace
}  // namespace kiln
