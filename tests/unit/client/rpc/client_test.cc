#include "client/rpc/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/status.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect() { return Connect(daemon_.Options()); }
  static std::unique_ptr<Client> Connect(const ConnectOptions& options) {
    auto client = Client::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  FakeDaemon daemon_;
};

TEST_F(ClientTest, CompilesAndReturnsWhatTheDaemonSays) {
  const auto client = Connect();
  const auto answer = client->Compile(RequestFor("module {}"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outcome(), v1::OUTCOME_COMPILED);
  ASSERT_EQ(answer->stages_size(), 1);
  EXPECT_EQ(answer->stages(0).content(), "cubin of module {}");
  EXPECT_EQ(client->socket_path(), daemon_.root() + "/run/kilnd.sock");
  EXPECT_EQ(client->hot_directory(), daemon_.root() + "/run/hot");
}

TEST_F(ClientTest, BytesThatDoNotMatchTheirDigestAreNeverReturned) {
  daemon_.kernels().on_compile = [](const auto& request, auto* response) {
    *response = AnswerTo(request);
    response->mutable_stages(0)->mutable_content()->back() ^= 1;
    return grpc::Status::OK;
  };
  const auto answer = Connect()->Compile(RequestFor("module {}"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(Message(answer.status())), HasSubstr("cubin"));
}

TEST_F(ClientTest, AnAnswerWithoutKeyIsRefused) {
  daemon_.kernels().on_compile = [](const auto&, auto*) { return grpc::Status::OK; };
  EXPECT_EQ(Connect()->Compile(RequestFor("module {}")).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(ClientTest, StagesThatDidNotTravelAlongAreFetched) {
  const std::string large(3 * limits::kMiB + 7, 'x');
  daemon_.kernels().AddBlob(large);
  daemon_.kernels().on_compile = [&](const auto& request, auto* response) {
    *response = AnswerTo(request);
    *response->add_stages() = DistantStage("llir", large);
    return grpc::Status::OK;
  };
  const auto client = Connect();
  const auto answer = client->Compile(RequestFor("module {}"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->stages(1).content(), large);

  CallOptions without;
  without.fetch_content = false;
  const auto bare = client->Compile(RequestFor("module {}"), without);
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_FALSE(bare->stages(1).has_content());
  EXPECT_EQ(daemon_.kernels().fetches, 1);
}

TEST_F(ClientTest, AFetchedBlobIsCheckedToo) {
  daemon_.kernels().on_fetch = [](const auto&, auto* writer) {
    v1::FetchChunk chunk;
    chunk.set_content("something else");
    writer->Write(chunk);
    return grpc::Status::OK;
  };
  const auto fetched = Connect()->Fetch(Digest::Of("what was asked for").Bytes());
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientTest, ATruncatedBlobIsDataLoss) {
  daemon_.kernels().on_fetch = [](const auto&, auto*) { return grpc::Status::OK; };
  EXPECT_EQ(Connect()->Fetch(Digest::Of("x").Bytes()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientTest, AMissingBlobIsNotFound) {
  const auto client = Connect();
  EXPECT_EQ(client->Fetch(Digest::Of("x").Bytes()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client->Fetch("short").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, ADaemonThatIsUnavailableIsAskedAgain) {
  std::atomic<int> refusals = 3;
  daemon_.kernels().on_compile = [&](const auto& request, auto* response) {
    if (refusals-- > 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    *response = AnswerTo(request);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Connect()->Compile(RequestFor("module {}")).ok());
  EXPECT_EQ(daemon_.kernels().compiles, 4);
}

TEST_F(ClientTest, AttemptsAreBounded) {
  daemon_.kernels().on_compile = [](const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  };
  const auto answer = Connect()->Compile(RequestFor("module {}"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(daemon_.kernels().compiles, RetryOptions().attempts_max);
}

TEST_F(ClientTest, AFullQueueIsWorthAnotherAttemptOnlyWithAHint) {
  const auto client = Connect();
  std::atomic<int> refusals = 1;
  daemon_.kernels().on_compile = [&](const auto& request, auto* response) {
    v1::RetryHint hint;
    hint.set_retry_after_ms(1);
    if (refusals-- > 0) {
      return StatusWithDetail(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue full", hint);
    }
    *response = AnswerTo(request);
    return grpc::Status::OK;
  };
  EXPECT_TRUE(client->Compile(RequestFor("module {}")).ok());
  EXPECT_EQ(daemon_.kernels().compiles, 2);

  daemon_.kernels().on_compile = [&](const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "shared memory");
  };
  EXPECT_EQ(client->Compile(RequestFor("module {}")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(daemon_.kernels().compiles, 3);
}

TEST_F(ClientTest, ARestartedDaemonIsFoundAgain) {
  const auto client = Connect();
  ASSERT_TRUE(client->Compile(RequestFor("one")).ok());
  daemon_.Stop();
  daemon_.Start();
  const auto answer = client->Compile(RequestFor("two"));
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(ClientTest, ADaemonThatWentAwayIsUnavailable) {
  const auto client = Connect();
  daemon_.Stop();
  EXPECT_EQ(client->Compile(RequestFor("module {}")).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, DiagnosticsTravel) {
  v1::CompileDiagnostics diagnostics;
  diagnostics.set_stage("parse");
  diagnostics.set_message("expected operation name");
  diagnostics.set_line(3);
  diagnostics.set_output("the compiler's words");
  daemon_.kernels().on_compile = [&](const auto&, auto*) {
    return StatusWithDetail(grpc::StatusCode::INVALID_ARGUMENT, "does not parse", diagnostics);
  };
  const auto answer = Connect()->Compile(RequestFor("nonsense"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  const auto received = DiagnosticsOf(answer.status());
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->SerializeAsString(), diagnostics.SerializeAsString());
  EXPECT_FALSE(RetryAfterOf(answer.status()).has_value());
}

TEST_F(ClientTest, ASourceOverTheLimitIsNotEvenSent) {
  const auto client = Connect();
  const auto answer = client->Compile(RequestFor(std::string(limits::kSourceBytesMax + 1, ' ')));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(daemon_.kernels().compiles, 0);
  EXPECT_TRUE(client->Compile(RequestFor(std::string(limits::kSourceBytesMax, ' '))).ok());
}

TEST_F(ClientTest, ADeadlineEndsACall) {
  const auto gate = std::make_shared<Gate>();
  daemon_.kernels().on_compile = [gate](const auto&, auto*) {
    gate->Await();
    return grpc::Status::OK;
  };
  CallOptions options;
  options.deadline = steady_clock::now() + milliseconds(20);
  EXPECT_EQ(Connect()->Compile(RequestFor("module {}"), options).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  gate->Open();
}

TEST_F(ClientTest, ADeadlineEndsRepetition) {
  ConnectOptions options = daemon_.Options();
  options.retry.attempts_max = 1'000'000;
  options.retry.backoff_max = milliseconds(50);
  const auto client = Connect(options);
  daemon_.Stop();
  CallOptions call;
  call.deadline = steady_clock::now() + milliseconds(100);
  const auto code = client->Compile(RequestFor("module {}"), call).status().code();
  EXPECT_EQ(code, absl::StatusCode::kUnavailable);
}

// Counts look-ups, so that a compile can last until the client has asked a few times whether
// anybody is there.
class Lookups {
 public:
  void Add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void AwaitAtLeast(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST_F(ClientTest, ALongCompileIsNotTakenForSilence) {
  ConnectOptions options = daemon_.Options();
  options.answer_budget = milliseconds(200);
  Lookups lookups;
  daemon_.kernels().on_lookup = [&](const auto&, auto*) {
    lookups.Add();
    return grpc::Status::OK;
  };
  daemon_.kernels().on_compile = [&](const auto& request, auto* response) {
    lookups.AwaitAtLeast(4);
    *response = AnswerTo(request);
    return grpc::Status::OK;
  };
  const auto answer = Connect(options)->Compile(RequestFor("module {}"));
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(ClientTest, ADaemonThatFallsSilentIsGivenUp) {
  ConnectOptions options = daemon_.Options();
  options.answer_budget = milliseconds(50);
  const auto client = Connect(options);
  const auto gate = std::make_shared<Gate>();
  const auto hang = [gate](const auto&, auto*) {
    gate->Await();
    return grpc::Status::OK;
  };
  daemon_.kernels().on_compile = hang;
  daemon_.kernels().on_lookup = hang;
  const auto answer = client->Compile(RequestFor("module {}"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(answer.status())), HasSubstr("does not answer"));
  EXPECT_EQ(daemon_.kernels().compiles, 1);
  gate->Open();
}

TEST_F(ClientTest, ClientToleratesOneMissedSignOfLife) {
  ConnectOptions options = daemon_.Options();
  options.answer_budget = milliseconds(1000);
  const auto gate = std::make_shared<Gate>();
  const auto lookups = std::make_shared<std::atomic<int>>(0);
  daemon_.kernels().on_lookup = [gate, lookups](const auto&, auto*) {
    if (lookups->fetch_add(1) == 0) gate->Await();
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Client::Connect(options).ok());
  EXPECT_EQ(*lookups, 2);
  gate->Open();
}

TEST_F(ClientTest, LooksUpAnyNumberOfKeysInOrder) {
  daemon_.kernels().AddBlob("stored");
  std::vector<std::string> keys;
  for (int i = 0; i < 1300; ++i) keys.emplace_back(Digest::Of(std::to_string(i)).Bytes());
  keys[700] = std::string(Digest::Of("stored").Bytes());
  const auto client = Connect();
  const int before = daemon_.kernels().lookups;
  const auto entries = client->Lookup(keys);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ((*entries)[i].key(), keys[i]);
    EXPECT_EQ((*entries)[i].found(), i == 700);
  }
  EXPECT_EQ(daemon_.kernels().lookups - before, 3);
}

TEST_F(ClientTest, AShortAnswerToALookupIsRefused) {
  const auto client = Connect();
  daemon_.kernels().on_lookup = [](const auto&, auto*) { return grpc::Status::OK; };
  EXPECT_EQ(client->Lookup({std::string(32, 'k')}).status().code(), absl::StatusCode::kInternal);
}

// Two entries fit into one answer of this daemon's.
grpc::Status AnswerTwo(const v1::GetOwnRequest& request, v1::GetOwnResponse* response) {
  for (int i = 0; i < request.keys_size(); ++i) {
    if (i >= 2) {
      response->add_unanswered_keys(request.keys(i));
      continue;
    }
    v1::OwnEntry& entry = *response->add_entries();
    entry.set_key(request.keys(i));
    v1::OwnFile& file = *entry.add_files();
    file.set_content("of " + request.keys(i));
    file.set_digest(std::string(Digest::Of(file.content()).Bytes()));
  }
  return grpc::Status::OK;
}

TEST_F(ClientTest, OwnEntriesThatFoundNoRoomAreAskedForAgain) {
  int calls = 0;
  daemon_.kernels().on_get_own = [&](const auto& request, auto* response) {
    ++calls;
    return AnswerTwo(request, response);
  };
  const auto entries = Connect()->GetOwn({"a", "b", "c", "d", "e"});
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  EXPECT_EQ(entries->back().files(0).content(), "of e");
  EXPECT_EQ(calls, 3);
}

TEST_F(ClientTest, AnOwnEntryOfOtherBytesThanItsDigestsIsNeverReturned) {
  daemon_.kernels().on_get_own = [](const auto& request, auto* response) {
    const grpc::Status status = AnswerTwo(request, response);
    response->mutable_entries(0)->mutable_files(0)->mutable_content()->back() ^= 1;
    return status;
  };
  EXPECT_EQ(Connect()->GetOwn({"a"}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientTest, ADaemonThatNeverAnswersAnyKeyIsNotAskedForEver) {
  daemon_.kernels().on_get_own = [](const auto& request, auto* response) {
    *response->mutable_unanswered_keys() = request.keys();
    return grpc::Status::OK;
  };
  EXPECT_EQ(Connect()->GetOwn({"a", "b"}).status().code(), absl::StatusCode::kInternal);
}

TEST_F(ClientTest, ListsToolchains) {
  daemon_.kernels().toolchains.add_toolchains()->set_name("triton");
  const auto listed = Connect()->ListToolchains();
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->toolchains(0).name(), "triton");
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  const auto client = Connect();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        const std::string source = std::to_string(i * 100 + j);
        const auto answer = client->Compile(RequestFor(source));
        if (answer.ok() && answer->stages(0).content() == "cubin of " + source) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 160);
}

TEST(ClientConnect, MissingDaemonIsUnavailable) {
  const TempDirectory directory;
  ConnectOptions options;
  options.root = directory.path();
  const auto client = Client::Connect(options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(client.status())), HasSubstr("/run/kilnd.sock"));
}

TEST(ClientConnect, ADaemonThatDoesNotAnswerIsGivenUp) {
  const TempDirectory directory;
  ConnectOptions options;
  options.socket_path = directory.File("kilnd.sock");
  options.answer_budget = milliseconds(30);
  const DeafListener listener(options.socket_path);
  const auto client = Client::Connect(options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(client.status())), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace kiln
