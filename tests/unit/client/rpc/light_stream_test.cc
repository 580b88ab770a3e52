#include "client/rpc/light_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kiln/v1/light.pb.h"
#include "storage/base/limits.h"
#include "storage/base/status.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Frame {
  uint64_t id = 0;
  uint32_t timeout_ms = 0;
  uint8_t method = 0;
  std::string body;
};

// The daemon's end of a connection.
class DaemonEnd {
 public:
  explicit DaemonEnd(int socket) : socket_(socket) {}

  bool ReadPreamble() {
    char preamble[8];
    return Read(preamble, sizeof preamble) && std::string_view(preamble, 8) == "kiln/1\r\n";
  }
  // Nothing: the client closed the connection.
  std::optional<Frame> Receive() {
    char header[17];
    if (!Read(header, sizeof header)) return std::nullopt;
    uint32_t length;
    Frame frame;
    std::memcpy(&length, header, sizeof length);
    std::memcpy(&frame.id, header + 4, sizeof frame.id);
    std::memcpy(&frame.timeout_ms, header + 12, sizeof frame.timeout_ms);
    frame.method = static_cast<uint8_t>(header[16]);
    frame.body.resize(length - 13);
    if (!frame.body.empty() && !Read(frame.body.data(), frame.body.size())) return std::nullopt;
    return frame;
  }
  void Send(uint64_t id, uint8_t code, const std::string& body) {
    const auto length = static_cast<uint32_t>(9 + body.size());
    std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
    frame.append(reinterpret_cast<const char*>(&id), sizeof id);
    frame.push_back(static_cast<char>(code));
    SendBytes(frame + body);
  }
  void SendBytes(const std::string& bytes) {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void Answer(const Frame& frame) {
    EXPECT_EQ(frame.method, v1::LIGHT_METHOD_COMPILE);
    v1::CompileRequest request;
    ASSERT_TRUE(request.ParseFromString(frame.body));
    Send(frame.id, 0, kiln::AnswerTo(request).SerializeAsString());
  }
  void AnswerAll() {
    while (const auto frame = Receive()) Answer(*frame);
  }

 private:
  bool Read(char* bytes, size_t count) {
    return ::recv(socket_.get(), bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
  }

  const UniqueFd socket_;
};

class LightStreamTest : public ::testing::Test {
 protected:
  // Sends requests "0" to "count-1" to a daemon that does `serve`, and notes each answer.
  absl::Status Run(uint64_t count, const std::function<void(DaemonEnd&)>& serve) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::thread daemon([&] {
      DaemonEnd end(ends[1]);
      EXPECT_TRUE(end.ReadPreamble());
      serve(end);
    });
    const Client::RequestSource next = [&](v1::CompileRequest& request) {
      await_(taken_);
      if (taken_ == count) return false;
      request = RequestFor(std::to_string(taken_++));
      return true;
    };
    const Client::AnswerSink sink = [&](uint64_t id, const RequestWindow::Answer& answer) {
      EXPECT_TRUE(answers_.emplace(id, answer).second) << id << " was answered twice";
      on_answer_(id);
    };
    const auto none = [](const v1::CompileRequest&) { return std::nullopt; };
    RequestWindow window(next, sink, none, options_, RetryOptions());
    absl::Status status;
    try {
      status = RunLightStream(UniqueFd(ends[0]), {budget_, options_.call.deadline}, shows_life_,
                              complete_, window);
    } catch (const std::runtime_error&) {
      status = absl::AbortedError("thrown");
    }
    under_way_ = answers_.size();
    on_answer_ = [](uint64_t) {};
    (void)window.End(absl::CancelledError());
    daemon.join();
    return status;
  }

  void ExpectAllGood(uint64_t count) {
    ASSERT_EQ(answers_.size(), count);
    for (const auto& [id, answer] : answers_) {
      ASSERT_TRUE(answer.ok()) << id << ": " << answer.status();
      EXPECT_EQ(answer->stages(0).content(), "cubin of " + std::to_string(id));
    }
  }

  milliseconds budget_{60'000};
  LifeQuestion shows_life_ = [](milliseconds) { return false; };
  ManyOptions options_;
  AnswerCompletion complete_ = [](v1::CompileResponse&) { return absl::OkStatus(); };
  std::function<void(uint64_t)> await_ = [](uint64_t) {};  // before that request is taken
  std::function<void(uint64_t)> on_answer_ = [](uint64_t) {};
  std::atomic<uint64_t> taken_ = 0;
  std::map<uint64_t, RequestWindow::Answer> answers_;
  size_t under_way_ = 0;  // how many were answered when the stream ended
};

// What a daemon does with one question.
bool IsAnsweredBy(const std::function<void(int daemon)>& serve) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd daemon(ends[1]);
  serve(daemon.get());
  return IsAnswered(UniqueFd(ends[0]), v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(),
                    milliseconds(200));
}

TEST(IsAnswered, AnyBytesAreAnAnswerAndSilenceAndAnEndAreNone) {
  EXPECT_TRUE(IsAnsweredBy([](int daemon) { EXPECT_EQ(::send(daemon, "x", 1, 0), 1); }));
  EXPECT_FALSE(IsAnsweredBy([](int) {}));
  EXPECT_FALSE(IsAnsweredBy([](int daemon) { ::shutdown(daemon, SHUT_RDWR); }));
}

TEST_F(LightStreamTest, AnswersThousands) {
  EXPECT_TRUE(Run(5000, [](DaemonEnd& end) { end.AnswerAll(); }).ok());
  ExpectAllGood(5000);
}

TEST_F(LightStreamTest, AnswersComeInAnyOrder) {
  EXPECT_TRUE(Run(100, [](DaemonEnd& end) {
                while (const auto first = end.Receive()) {
                  const auto second = end.Receive();
                  ASSERT_TRUE(second);
                  end.Answer(*second);
                  end.Answer(*first);
                }
              }).ok());
  ExpectAllGood(100);
}

TEST_F(LightStreamTest, NoMoreRequestsAreUnderWayThanTheDaemonReads) {
  options_.in_flight_max = 1000;
  std::atomic<uint64_t> received = 0;
  std::atomic<uint64_t> answered = 0;
  EXPECT_TRUE(Run(1000, [&](DaemonEnd& end) {
                std::vector<Frame> held;
                while (const auto frame = end.Receive()) {
                  held.push_back(*frame);
                  EXPECT_LE(++received - answered, limits::kStreamInFlightMax);
                  if (held.size() < limits::kStreamInFlightMax && received < 1000) continue;
                  answered += held.size();
                  for (const Frame& each : held) end.Answer(each);
                  held.clear();
                }
              }).ok());
  ExpectAllGood(1000);
}

TEST_F(LightStreamTest, AnAnswerMayBeLargerThanTheBuffer) {
  complete_ = [](v1::CompileResponse& response) {
    EXPECT_EQ(response.metadata().name().size(), limits::kMiB);
    return absl::OkStatus();
  };
  EXPECT_TRUE(Run(3, [](DaemonEnd& end) {
                v1::CompileResponse answer;
                answer.mutable_metadata()->set_name(std::string(limits::kMiB, 'x'));
                const std::string body = answer.SerializeAsString();
                while (const auto frame = end.Receive()) end.Send(frame->id, 0, body);
              }).ok());
  EXPECT_EQ(answers_.size(), 3u);
}

TEST_F(LightStreamTest, AnswersComeWhileTheSourceBlocks) {
  std::atomic<bool> is_answered = false;
  on_answer_ = [&](uint64_t) {
    is_answered = true;
    is_answered.notify_all();
  };
  await_ = [&](uint64_t number) {
    if (number == 1) is_answered.wait(false);
  };
  EXPECT_TRUE(Run(2, [](DaemonEnd& end) { end.AnswerAll(); }).ok());
  ExpectAllGood(2);
}

TEST_F(LightStreamTest, AnErrorKeepsItsDetails) {
  v1::RpcStatus error;
  error.set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  error.set_message("no such target");
  v1::RequestKey key;
  key.set_key("a key");
  error.add_details()->PackFrom(key);
  EXPECT_TRUE(Run(1, [&](DaemonEnd& end) {
                end.Send(end.Receive()->id, static_cast<uint8_t>(error.code()),
                         error.SerializeAsString());
              }).ok());
  ASSERT_EQ(answers_.size(), 1u);
  const absl::Status status = answers_.at(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "no such target");
  EXPECT_EQ(RequestKeyOf(status), "a key");
}

TEST_F(LightStreamTest, ARequestThatMayBeRepeatedIsRepeated) {
  v1::RpcStatus full;
  full.set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
  v1::RetryHint hint;
  hint.set_retry_after_ms(1);
  full.add_details()->PackFrom(hint);
  EXPECT_TRUE(Run(2, [&](DaemonEnd& end) {
                end.Send(end.Receive()->id, static_cast<uint8_t>(full.code()),
                         full.SerializeAsString());
                end.AnswerAll();
              }).ok());
  ExpectAllGood(2);
}

TEST_F(LightStreamTest, AnAnswerThatIsNoMessageFailsItsRequestAlone) {
  EXPECT_TRUE(Run(3, [](DaemonEnd& end) {
                end.Send(end.Receive()->id, 0, "\xff");
                end.AnswerAll();
              }).ok());
  EXPECT_EQ(answers_.at(0).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(answers_.at(1).ok() && answers_.at(2).ok());
}

TEST_F(LightStreamTest, ADaemonOfAnotherProtocolIsUnimplemented) {
  // The beginning of HTTP/2: a frame of settings.
  EXPECT_TRUE(absl::IsUnimplemented(
      Run(10, [](DaemonEnd& end) { end.SendBytes(std::string("\0\0\x24\4\0\0\0\0\0", 9)); })));
  EXPECT_EQ(under_way_, 0u);
}

TEST_F(LightStreamTest, ADaemonThatClosesAtOnceIsUnimplemented) {
  EXPECT_TRUE(absl::IsUnimplemented(Run(10, [](DaemonEnd&) {})));
  EXPECT_EQ(under_way_, 0u);
}

TEST_F(LightStreamTest, AConnectionThatBreaksLaterIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(Run(10, [](DaemonEnd& end) { end.Answer(*end.Receive()); })));
  EXPECT_EQ(under_way_, 1u);
}

TEST_F(LightStreamTest, ADaemonThatShowsLifeHasAllTheTimeItTakes) {
  budget_ = milliseconds(30);
  std::atomic<int> questions = 0;
  shows_life_ = [&](milliseconds budget) {
    EXPECT_EQ(budget, milliseconds(20));
    ++questions;
    questions.notify_all();
    return true;
  };
  EXPECT_TRUE(Run(1, [&](DaemonEnd& end) {
                const Frame held = *end.Receive();
                for (int asked = 0; asked < 5; asked = questions) questions.wait(asked);
                end.Answer(held);
                end.AnswerAll();
              }).ok());
  ExpectAllGood(1);
}

TEST_F(LightStreamTest, ADaemonThatFallsSilentIsGivenUp) {
  budget_ = milliseconds(30);
  const absl::Status status = Run(10, [](DaemonEnd& end) {
    while (end.Receive()) {
    }
  });
  EXPECT_TRUE(IsWedgedStatus(status)) << status;
}

TEST_F(LightStreamTest, ADeadlineEndsIt) {
  options_.call.deadline = steady_clock::now() + milliseconds(50);
  const absl::Status status = Run(10, [](DaemonEnd& end) {
    while (const auto frame = end.Receive()) {
      EXPECT_GE(frame->timeout_ms, 1u);
      EXPECT_LE(frame->timeout_ms, 50u);
    }
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(LightStreamTest, ADeadlineEndsItWhileAnswersCome) {
  options_.call.deadline = steady_clock::now() + milliseconds(50);
  const absl::Status status = Run(100'000'000, [](DaemonEnd& end) { end.AnswerAll(); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(LightStreamTest, ASinkThatThrowsGetsItsExceptionBack) {
  on_answer_ = [](uint64_t) { throw std::runtime_error("of the sink"); };
  EXPECT_TRUE(absl::IsAborted(Run(100, [](DaemonEnd& end) { end.AnswerAll(); })));
}

TEST_F(LightStreamTest, AnAnswerToNothingIsIgnored) {
  EXPECT_TRUE(Run(10, [](DaemonEnd& end) {
                end.Send(77, 0, "");
                end.AnswerAll();
              }).ok());
  ExpectAllGood(10);
}

}  // namespace
}  // namespace kiln
