#include "daemon/rpc/light/light_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/testing/artifacts.h"
#include "tests/unit/rpc/light_client.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

class LightServerTest : public ServiceTest {
 protected:
  // The daemon still answers others.
  void ExpectServing() {
    LightClient other(ConnectLight());
    EXPECT_EQ(other.Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest()).code, 0);
  }
  // As the listener does, with less time in between.
  static void CloseSilentUntilHangUp(LightServer& server, const LightClient& client) {
    int polls = 0;
    for (pollfd hang_up{client.fd(), 0, 0}; ::poll(&hang_up, 1, 10) == 0; server.CloseSilent()) {
      ASSERT_LT(++polls, 6000) << "the connection stays";
    }
  }
  std::string PutBlob(size_t bytes) {
    const MadeArtifact made = MakeArtifact("large", bytes);
    EXPECT_TRUE(store_.Put({}, made.record, made.blobs).ok());
    return std::string(made.blobs.back().digest().Bytes());
  }

  LightClient client_{ConnectLight()};
};

TEST_F(LightServerTest, ThousandsOfRequestsWithoutWaiting) {
  provider_.FinishAtOnce();
  constexpr uint64_t kCount = 5000;
  std::thread sender([&] {
    for (uint64_t id = 0; id < kCount; ++id) {
      EXPECT_TRUE(client_.Send(id, v1::LIGHT_METHOD_COMPILE, Request()));
    }
  });
  std::set<uint64_t> answered;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto answer = client_.Receive();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code, 0);
    answered.insert(answer->id);
  }
  sender.join();
  EXPECT_EQ(answered.size(), kCount);
}

TEST_F(LightServerTest, AnswersOfOtherThreadsWhileRequestsCome) {
  constexpr uint64_t kCount = 3000;
  std::atomic<bool> is_over = false;
  std::thread finishing([&] {
    while (!is_over) provider_.FinishAll();
  });
  std::thread sender([&] {
    for (uint64_t id = 0; id < kCount; ++id) {
      EXPECT_TRUE(client_.Send(id, v1::LIGHT_METHOD_COMPILE, Request(std::to_string(id))));
    }
  });
  std::set<uint64_t> answered;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto answer = client_.Receive();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code, 0);
    answered.insert(answer->id);
  }
  sender.join();
  is_over = true;
  finishing.join();
  EXPECT_EQ(answered.size(), kCount);
}

TEST_F(LightServerTest, ReadsNoMoreThanTheLimitOfRequestsInFlight) {
  constexpr size_t kMore = limits::kStreamInFlightMax + 10;
  for (uint64_t id = 0; id < kMore; ++id) {
    ASSERT_TRUE(client_.Send(id, v1::LIGHT_METHOD_COMPILE, Request(std::to_string(id))));
  }
  AwaitHeld(limits::kStreamInFlightMax);
  ExpectServing();
  EXPECT_EQ(provider_.started(), limits::kStreamInFlightMax);
  provider_.FinishAtOnce();
  provider_.FinishAll();
  for (size_t i = 0; i < kMore; ++i) ASSERT_TRUE(client_.Receive().has_value());
}

TEST_F(LightServerTest, AHitIsAnsweredBeforeABrokenFrameEndsTheConnection) {
  provider_.FinishAtOnce();
  const std::string hit =
      LightFrameBytes(1, v1::LIGHT_METHOD_COMPILE, Request().SerializeAsString());
  ASSERT_TRUE(client_.SendBytes(hit + std::string("\0\0\0\0", 4)));
  const auto answer = client_.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->id, 1u);
  EXPECT_FALSE(client_.Receive().has_value());
}

TEST_F(LightServerTest, CancelledRequestIsAnswered) {
  ASSERT_TRUE(client_.Send(5, v1::LIGHT_METHOD_COMPILE, Request()));
  AwaitHeld(1);
  ASSERT_TRUE(client_.SendBytes(LightFrameBytes(4, v1::LIGHT_METHOD_CANCEL, "")));  // not in flight
  ASSERT_TRUE(client_.SendBytes(LightFrameBytes(5, v1::LIGHT_METHOD_CANCEL, "")));
  const auto answer = client_.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->id, 5u);
  EXPECT_EQ(answer->status().code(), static_cast<int>(absl::StatusCode::kCancelled));
  EXPECT_EQ(provider_.cancelled(), 1u);
}

TEST_F(LightServerTest, ClosedConnectionCancelsWhatIsInFlight) {
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request("a")));
  ASSERT_TRUE(client_.Send(2, v1::LIGHT_METHOD_COMPILE, Request("b")));
  AwaitHeld(2);
  client_.Close();
  while (provider_.cancelled() < 2) std::this_thread::yield();
  gate_.Close();
  EXPECT_TRUE(gate_.AwaitEmpty(SteadyTime::max()));
}

TEST_F(LightServerTest, ClientThatBreaksTheProtocolIsDisconnected) {
  for (const std::string& bytes :
       {std::string("\0\0\0\0", 4), std::string("\x0c\0\0\0garbage, garbage", 20)}) {
    LightClient broken(ConnectLight());
    broken.SendBytes(bytes);
    EXPECT_FALSE(broken.Receive().has_value());
  }
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request()));
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request()));
  EXPECT_FALSE(client_.Receive().has_value());
  while (provider_.cancelled() < 1) std::this_thread::yield();
  ExpectServing();
}

TEST_F(LightServerTest, UnknownPreambleIsDisconnected) {
  const UniqueFd socket = ConnectLight();
  ASSERT_EQ(::send(socket.get(), "kiln/9\r\n", 8, MSG_NOSIGNAL), 8);
  char byte;
  EXPECT_EQ(::recv(socket.get(), &byte, 1, 0), 0);
}

TEST_F(LightServerTest, HalfARequestHarmsNobody) {
  const std::string frame = LightFrameBytes(1, v1::LIGHT_METHOD_COMPILE, std::string(1000, 'x'));
  ASSERT_TRUE(client_.SendBytes(frame.substr(0, 500)));
  ExpectServing();
  client_.Close();
  ExpectServing();
}

TEST_F(LightServerTest, RequestThatIsTooLongIsRefusedAndTheNextServed) {
  const std::string large(limits::kRequestBytesMax + 1, 'x');
  ASSERT_TRUE(client_.SendBytes(LightFrameBytes(1, v1::LIGHT_METHOD_COMPILE, large)));
  const auto refused = client_.Receive();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(client_.Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest()).code, 0);
}

TEST_F(LightServerTest, ClientThatDoesNotReadIsNotReadFrom) {
  v1::FetchRequest request;
  request.set_digest(PutBlob(limits::kMiB));
  // More than the limit of what is unread; the rest waits in the socket.
  for (uint64_t id = 0; id < 50; ++id) {
    ASSERT_TRUE(client_.Send(id, v1::LIGHT_METHOD_FETCH, request));
  }
  ExpectServing();
  for (uint64_t id = 0; id < 50; ++id) {
    const auto answer = client_.Receive();
    ASSERT_TRUE(answer.has_value());
    v1::FetchChunk chunk;
    ASSERT_TRUE(chunk.ParseFromString(answer->body));
    EXPECT_EQ(Digest::Of(chunk.content()).Bytes(), request.digest());
  }
}

TEST_F(LightServerTest, AnswersThatNobodyReadsAreBounded) {
  constexpr uint64_t kEach = 20;
  constexpr size_t kUnreadBytesMax = 4 * limits::kMiB;
  provider_.AnswerWith([](const CompileJob& job) {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.back().blob = Blob::FromBytes(std::string(limits::kMiB, 'x'));
    return CompileResult{Outcome::kCompiled, std::nullopt, std::move(artifact)};
  });
  parts_.unread.reset(new SharedBytes{2 * kUnreadBytesMax});
  LightServer server(parts_);
  ASSERT_TRUE(server.Start().ok());
  LightClient hostile[] = {LightClient(ConnectLight(server)), LightClient(ConnectLight(server))};
  for (LightClient& client : hostile) {
    for (uint64_t id = 0; id < kEach; ++id) {
      ASSERT_TRUE(client.Send(id, v1::LIGHT_METHOD_COMPILE, Request(std::to_string(id))));
    }
  }
  AwaitHeld(2 * kEach);
  provider_.FinishAll();  // all answers are made here, and nobody reads
  LightClient other(ConnectLight(server, {1001, false}));
  std::thread finishing([&] {
    AwaitHeld(1);
    provider_.FinishAll();
  });
  EXPECT_EQ(other.Call(v1::LIGHT_METHOD_COMPILE, Request()).code, 0);
  finishing.join();
  uint64_t served = 0;
  for (LightClient& client : hostile) {
    for (uint64_t id = 0; id < kEach; ++id) {
      const auto answer = client.Receive();
      ASSERT_TRUE(answer.has_value());
      if (answer->code == 0) {
        ++served;
        continue;
      }
      EXPECT_EQ(answer->code, static_cast<int>(absl::StatusCode::kResourceExhausted));
      EXPECT_EQ(answer->status().details_size(), 1);  // when to try again
    }
  }
  EXPECT_GT(served, 0u);
  EXPECT_LE(served, kUnreadBytesMax / limits::kMiB);
  EXPECT_EQ(hostile[0].Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest()).code, 0);
}

TEST_F(LightServerTest, ConnectionsWhereNothingMovesEnd) {
  LightServer server(parts_);
  ASSERT_TRUE(server.Start().ok());
  const std::string frame = LightFrameBytes(1, v1::LIGHT_METHOD_COMPILE, "half of it");
  LightClient waiting(ConnectLight(server));
  ASSERT_TRUE(waiting.Send(1, v1::LIGHT_METHOD_COMPILE, Request()));
  AwaitHeld(1);
  for (const std::string& bytes : {std::string(), frame.substr(0, 6), frame.substr(0, 20)}) {
    LightClient silent(ConnectLight(server));
    ASSERT_TRUE(silent.SendBytes(bytes));
    CloseSilentUntilHangUp(server, silent);
  }
  // Three times as long nothing moved on this one, but its compile was under way.
  provider_.FinishAll();
  EXPECT_TRUE(waiting.Receive().has_value());
}

TEST_F(LightServerTest, AnswersThatAreNotReadForLongEnd) {
  LightServer server(parts_);
  ASSERT_TRUE(server.Start().ok());
  v1::FetchRequest request;
  request.set_digest(PutBlob(4 * limits::kMiB));
  LightClient client(ConnectLight(server));
  ASSERT_TRUE(client.Send(1, v1::LIGHT_METHOD_FETCH, request));
  CloseSilentUntilHangUp(server, client);
}

TEST_F(LightServerTest, UserWhoFloodsDelaysNobody) {
  constexpr size_t kConnections = 40;
  constexpr size_t kEach = 50;
  std::atomic<bool> has_begun = false;
  provider_.FinishAtOnce();
  provider_.AnswerWith([&](const CompileJob& job) {
    has_begun.wait(false);
    return CompiledFrom(job);
  });
  std::vector<LightClient> flood;
  std::string requests;
  for (uint64_t id = 0; id < kEach; ++id) {
    requests += LightFrameBytes(id, v1::LIGHT_METHOD_COMPILE, Request().SerializeAsString());
  }
  for (size_t i = 0; i < kConnections; ++i) {
    flood.emplace_back(ConnectLight({1001, false}));
    ASSERT_TRUE(flood.back().SendBytes(requests));
  }
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request("honest")));
  has_begun = true;
  has_begun.notify_all();
  ASSERT_TRUE(client_.Receive().has_value());
  for (LightClient& client : flood) {
    for (size_t i = 0; i < kEach; ++i) ASSERT_TRUE(client.Receive().has_value());
  }
  const std::vector<FakeProvider::Call> calls = provider_.calls();
  const auto honest = std::find_if(calls.begin(), calls.end(), [](const auto& call) {
    return call.job->request.source.text == "honest";
  });
  // A thread that the kernel stops before it serves the request lets more of the flood through.
  EXPECT_LT(honest - calls.begin(), ptrdiff_t{kConnections * kEach / 4});
}

TEST_F(LightServerTest, ShutdownCancelsWhatIsInFlightAndServesNobody) {
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request()));
  AwaitHeld(1);
  light_server_.Shutdown(SteadyTime::min());
  EXPECT_EQ(provider_.cancelled(), 1u);
  EXPECT_FALSE(client_.Receive().has_value());
  EXPECT_EQ(light_server_.Serve(UniqueFd(), {1, false}).code(), absl::StatusCode::kUnavailable);
}

TEST_F(LightServerTest, ShutdownWaitsForAnswersUntilTheDeadline) {
  ASSERT_TRUE(client_.Send(1, v1::LIGHT_METHOD_COMPILE, Request()));
  AwaitHeld(1);
  std::thread stopping([&] { light_server_.Shutdown(SteadyTime::max()); });
  provider_.FinishOne();
  const auto answer = client_.Receive();
  stopping.join();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code, 0);
}

}  // namespace
}  // namespace kiln
