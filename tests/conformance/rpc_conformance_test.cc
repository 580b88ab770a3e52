// Both ways in, gRPC and the light protocol, give the same answers, errors and limits.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/metric_growth.h"
#include "tests/unit/rpc/light_client.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using google::protobuf::Message;
using std::chrono::milliseconds;

// A call under way. Its way outlives it.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void Cancel() = 0;
  // Blocks. `body` is filled where the status is OK. Call once.
  virtual v1::RpcStatus Await(std::string& body) = 0;
};

// A connection over one of the ways.
class Way {
 public:
  virtual ~Way() = default;
  // Zero: no timeout.
  virtual std::unique_ptr<Pending> Start(int method, std::string_view body,
                                         milliseconds timeout) = 0;
  // Compiles together. The statuses in the order of the requests.
  virtual std::vector<v1::RpcStatus> Batch(const std::vector<std::string>& requests) = 0;
  // The client is gone.
  virtual void Close() = 0;

  v1::RpcStatus Call(int method, std::string_view body, Message& response, milliseconds timeout) {
    std::string answer;
    const v1::RpcStatus status = Start(method, body, timeout)->Await(answer);
    EXPECT_TRUE(status.code() != 0 || response.ParseFromString(answer));
    return status;
  }
};

class LightWay final : public Way {
 public:
  explicit LightWay(UniqueFd socket) : client_(std::move(socket)) {}

  std::unique_ptr<Pending> Start(int method, std::string_view body, milliseconds timeout) override {
    const auto timeout_ms = static_cast<uint32_t>(timeout.count());
    EXPECT_TRUE(client_.SendBytes(LightFrameBytes(++last_id_, method, body, timeout_ms)));
    return std::make_unique<Request>(*this, last_id_);
  }
  std::vector<v1::RpcStatus> Batch(const std::vector<std::string>& requests) override {
    std::vector<std::unique_ptr<Pending>> calls;
    for (const std::string& request : requests) {
      calls.push_back(Start(v1::LIGHT_METHOD_COMPILE, request, {}));
    }
    std::vector<v1::RpcStatus> statuses;
    std::string unused;
    for (const auto& call : calls) statuses.push_back(call->Await(unused));
    return statuses;
  }
  void Close() override { client_.Close(); }

 private:
  class Request final : public Pending {
   public:
    Request(LightWay& way, uint64_t id) : way_(way), id_(id) {}
    void Cancel() override {
      EXPECT_TRUE(way_.client_.SendBytes(LightFrameBytes(id_, v1::LIGHT_METHOD_CANCEL, "")));
    }
    v1::RpcStatus Await(std::string& body) override {
      while (!way_.answers_.contains(id_)) {
        std::optional<LightAnswer> answer = way_.client_.Receive();
        EXPECT_TRUE(answer.has_value()) << "the daemon closed the connection, or says nothing";
        if (!answer) return {};
        way_.answers_[answer->id] = *std::move(answer);
      }
      LightAnswer answer = std::move(way_.answers_.extract(id_).mapped());
      if (answer.code == 0) body = std::move(answer.body);
      return answer.status();
    }

   private:
    LightWay& way_;
    const uint64_t id_;
  };

  LightClient client_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, LightAnswer> answers_;  // that nobody has asked for yet
};

class GrpcWay final : public Way {
 public:
  GrpcWay(std::shared_ptr<grpc::Channel> channel, UniqueFd socket)
      : channel_(std::move(channel)), socket_(std::move(socket)) {}

  std::unique_ptr<Pending> Start(int method, std::string_view body, milliseconds timeout) override {
    return std::make_unique<Request>(channel_, method, body, timeout);
  }
  std::vector<v1::RpcStatus> Batch(const std::vector<std::string>& requests) override {
    grpc::ClientContext context;
    const auto stream = v1::KernelService::NewStub(channel_)->CompileStream(&context);
    for (size_t i = 0; i < requests.size(); ++i) {
      v1::CompileStreamRequest item;
      item.set_id(i + 1);
      // As it is: it need not be a request.
      item.GetReflection()->MutableUnknownFields(&item)->AddLengthDelimited(
          v1::CompileStreamRequest::kRequestFieldNumber, requests[i]);
      EXPECT_TRUE(stream->Write(item));
    }
    stream->WritesDone();
    std::vector<v1::RpcStatus> statuses(requests.size());
    size_t answers = 0;
    for (v1::CompileStreamResponse answer; stream->Read(&answer); ++answers) {
      statuses.at(answer.id() - 1).set_code(answer.code());
      statuses.at(answer.id() - 1).set_message(answer.message());
    }
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(answers, requests.size());
    return statuses;
  }
  void Close() override { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  // Unary or not, it is a stream on the wire.
  class Request final : public Pending,
                        public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    Request(const std::shared_ptr<grpc::Channel>& channel, int method, std::string_view body,
            milliseconds timeout)
        : method_(method), stub_(channel) {
      static const char* const kNames[] = {"None",  "Compile",        "Lookup", "Nearest",
                                           "Fetch", "ListToolchains", "GetOwn", "PutOwn",
                                           "None",  "NoteUses"};
      const std::string name =
          std::string("/kiln.v1.KernelService/") +
          (method < static_cast<int>(std::size(kNames)) ? kNames[method] : "None");
      if (timeout.count() > 0) context_.set_deadline(std::chrono::system_clock::now() + timeout);
      const grpc::Slice slice(body.data(), body.size());
      grpc::ByteBuffer(&slice, 1).Swap(&request_);
      stub_.PrepareBidiStreamingCall(&context_, name, {}, this);
      StartWriteLast(&request_, {});
      StartRead(&response_);
      StartCall();
    }
    ~Request() override {
      context_.TryCancel();
      status_.wait();
    }
    void Cancel() override { context_.TryCancel(); }
    v1::RpcStatus Await(std::string& body) override {
      EXPECT_EQ(status_.wait_for(std::chrono::minutes(1)), std::future_status::ready);
      context_.TryCancel();
      const grpc::Status& status = status_.get();
      if (status.ok()) body = method_ == v1::LIGHT_METHOD_FETCH ? Joined() : messages_.at(0);
      // A status without details travels as gRPC's own code and message.
      v1::RpcStatus out;
      EXPECT_TRUE(out.ParseFromString(status.error_details()));
      out.set_code(status.error_code());
      out.set_message(status.error_message());
      return out;
    }
    void OnReadDone(bool ok) override {
      if (!ok) return;
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(response_.Dump(&slices).ok());
      std::string& message = messages_.emplace_back();
      for (const grpc::Slice& slice : slices) {
        message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      StartRead(&response_);
    }
    void OnDone(const grpc::Status& status) override { done_.set_value(status); }

   private:
    std::string Joined() const {
      v1::FetchChunk whole;
      for (const std::string& message : messages_) {
        v1::FetchChunk chunk;
        EXPECT_TRUE(chunk.ParseFromString(message));
        *whole.mutable_content() += chunk.content();
      }
      return whole.SerializeAsString();
    }

    const int method_;
    grpc::GenericStub stub_;
    grpc::ClientContext context_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
    std::vector<std::string> messages_;
    std::promise<grpc::Status> done_;
    const std::shared_future<grpc::Status> status_ = done_.get_future();
  };

  const std::shared_ptr<grpc::Channel> channel_;
  const UniqueFd socket_;
};

class RpcConformance : public ServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool IsLight() { return GetParam(); }
  std::unique_ptr<Way> Open(const Principal& principal = {1000, false}) {
    if (IsLight()) return std::make_unique<LightWay>(ConnectLight(principal));
    UniqueFd socket;
    auto channel = Connect(principal, &socket);
    return std::make_unique<GrpcWay>(std::move(channel), std::move(socket));
  }
  v1::RpcStatus Call(int method, const Message& request, Message& response,
                     milliseconds timeout = {}) {
    return way_->Call(method, request.SerializeAsString(), response, timeout);
  }
  v1::RpcStatus Compile(const v1::CompileRequest& request, milliseconds timeout = {}) {
    v1::CompileResponse unused;
    return Call(v1::LIGHT_METHOD_COMPILE, request, unused, timeout);
  }
  std::unique_ptr<Pending> StartCompile(const std::string& text, milliseconds timeout = {}) {
    return way_->Start(v1::LIGHT_METHOD_COMPILE, Request(text).SerializeAsString(), timeout);
  }
  // The daemon goes on, and keeps and counts nothing of the calls that ended early.
  void ExpectNothingIsLeft() {
    ASSERT_TRUE(Comes([&] { return provider_.held() == 0; }));
    EXPECT_EQ(provider_.completed(), 0u);
    provider_.FinishAtOnce();
    v1::CompileResponse unused;
    EXPECT_EQ(
        Open()
            ->Call(v1::LIGHT_METHOD_COMPILE, Request("another").SerializeAsString(), unused, {})
            .code(),
        0);
    gate_.Close();
    EXPECT_TRUE(gate_.AwaitEmpty(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    ASSERT_EQ(activity_.List().size(), 1u);
    EXPECT_EQ(activity_.List()[0].Of(ActivityKind::kCompiled), ActivityCount{1});
    EXPECT_EQ(activity_.List()[0].Of(ActivityKind::kFailed), ActivityCount{0});
  }

  std::unique_ptr<Way> way_ = Open();
};

// The code alone, or with what the message has.
void ExpectError(const v1::RpcStatus& status, absl::StatusCode code, std::string_view part = "") {
  EXPECT_EQ(status.code(), static_cast<int>(code)) << status.DebugString();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST_P(RpcConformance, CompileAnswersWithTheArtifact) {
  provider_.FinishAtOnce();
  v1::CompileRequest request = Request();
  request.set_priority(v1::PRIORITY_WARM);
  request.set_job("llama");
  v1::CompileResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_COMPILE, request, response, std::chrono::hours(1)).code(), 0);
  EXPECT_EQ(response.outcome(), v1::OUTCOME_COMPILED);
  EXPECT_EQ(response.key(), provider_.calls().at(0).job->key.Bytes());
  ASSERT_EQ(response.stages_size(), 1);
  EXPECT_EQ(response.stages(0).stage(), "cubin");
  EXPECT_EQ(Digest::Of(response.stages(0).content()).Bytes(), response.stages(0).digest());
  const CallContext seen = provider_.calls().at(0).context;
  EXPECT_EQ(seen.principal, (Principal{1000, false}));
  EXPECT_EQ(seen.priority, Priority::kWarm);
  EXPECT_EQ(seen.job, "llama");
  ASSERT_TRUE(seen.deadline.has_value());
  // gRPC rounds up, by some seconds.
  const auto left = *seen.deadline - std::chrono::steady_clock::now();
  EXPECT_GT(left, std::chrono::minutes(59));
  EXPECT_LT(left, std::chrono::minutes(61));

  ASSERT_EQ(Compile(Request()).code(), 0);
  EXPECT_FALSE(provider_.calls().at(1).context.deadline.has_value());
}

TEST_P(RpcConformance, CompileAnswersLater) {
  std::thread finishing([&] {
    AwaitHeld(1);
    provider_.FinishOne();
  });
  EXPECT_EQ(Compile(Request()).code(), 0);
  finishing.join();
}

TEST_P(RpcConformance, FailureCarriesTheCompilersWords) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([](const CompileJob&) {
    CompileFailure failure;
    failure.stage = "ptx";
    failure.message = "unexpected token";
    failure.line = 3;
    failure.column = 7;
    failure.output = std::string(100'000, 'x') + "\xff the end";
    CompileResult result;
    result.value = std::make_shared<const CompileFailure>(failure);
    return absl::StatusOr<CompileResult>(result);
  });
  const v1::RpcStatus status = Compile(Request());
  ExpectError(status, absl::StatusCode::kInvalidArgument,
              "ptx: unexpected token (line 3, column 7)");
  ASSERT_EQ(status.details_size(), 1);
  v1::CompileDiagnostics diagnostics;
  ASSERT_TRUE(status.details(0).UnpackTo(&diagnostics));
  EXPECT_EQ(diagnostics.line(), 3);
  EXPECT_EQ(diagnostics.key(), provider_.calls().at(0).job->key.Bytes());
  EXPECT_TRUE(diagnostics.output().ends_with(" the end"));
  EXPECT_LT(diagnostics.output().size(), limits::kDiagnosticsBytesMax);  // a stream's answers
}

TEST_P(RpcConformance, ErrorCarriesRetryHintAndKey) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([&](const CompileJob&) -> absl::StatusOr<CompileResult> {
    return WithRetryAfter(ResourceExhausted("the queue is full"), milliseconds(1500));
  });
  const v1::RpcStatus status = Compile(Request());
  ExpectError(status, absl::StatusCode::kResourceExhausted, "the queue is full");
  ASSERT_EQ(status.details_size(), 2);
  v1::RetryHint hint;
  v1::RequestKey key;
  ASSERT_TRUE(status.details(0).UnpackTo(&hint));
  ASSERT_TRUE(status.details(1).UnpackTo(&key));
  EXPECT_EQ(hint.retry_after_ms(), 1500u);
  EXPECT_EQ(key.key(), provider_.calls().at(0).job->key.Bytes());
}

// The key of a request that never became a job is not known.
TEST_P(RpcConformance, EveryErrorOfAJobCarriesItsKey) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([](const CompileJob&) -> absl::StatusOr<CompileResult> {
    return Internal("the compiler crashed");
  });
  const v1::RpcStatus status = Compile(Request());
  v1::RequestKey key;
  ASSERT_EQ(status.details_size(), 1);
  ASSERT_TRUE(status.details(0).UnpackTo(&key));
  EXPECT_EQ(key.key(), provider_.calls().at(0).job->key.Bytes());
  EXPECT_EQ(Compile(v1::CompileRequest()).details_size(), 0);

  provider_.AnswerWith([](const CompileJob& job) -> absl::StatusOr<CompileResult> {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.erase(artifact->stages.begin());
    return CompileResult{Outcome::kCompiled, std::nullopt, std::move(artifact)};
  });
  v1::CompileRequest other = Request();
  other.add_stages("ptx");
  const v1::RpcStatus without = Compile(other);
  ExpectError(without, absl::StatusCode::kInternal, "has no stage");
  ASSERT_EQ(without.details_size(), 1);
  EXPECT_TRUE(without.details(0).Is<v1::RequestKey>());
}

TEST_P(RpcConformance, DrainingDaemonRefusesCompiles) {
  gate_.Close();
  const v1::RpcStatus status = Compile(Request());
  ExpectError(status, absl::StatusCode::kUnavailable);
  ASSERT_EQ(status.details_size(), 2);
  EXPECT_TRUE(status.details(0).Is<v1::RetryHint>());
  EXPECT_TRUE(status.details(1).Is<v1::RequestKey>());
  v1::LookupResponse response;
  EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), response).code(), 0);
}

TEST_P(RpcConformance, AnswersGoOutBeforeADrainEnds) {
  provider_.FinishAtOnce();
  ASSERT_EQ(Compile(Request()).code(), 0);
  gate_.Close();
  EXPECT_TRUE(gate_.AwaitEmpty(SteadyTime::max()));
}

TEST_P(RpcConformance, RefusesWhatIsNoRequest) {
  ExpectError(Compile(v1::CompileRequest()), absl::StatusCode::kInvalidArgument);
  v1::CompileRequest unknown = Request();
  unknown.set_priority(static_cast<v1::Priority>(99));
  ExpectError(Compile(unknown), absl::StatusCode::kInvalidArgument, "priority = 99");
  v1::LookupRequest other;
  other.add_keys(std::string(32, '\xff'));
  v1::CompileResponse response;
  ExpectError(Call(v1::LIGHT_METHOD_COMPILE, other, response), absl::StatusCode::kInvalidArgument);
  ExpectError(Call(99, v1::LookupRequest(), response), absl::StatusCode::kUnimplemented);
}

TEST_P(RpcConformance, RefusesWhatIsTooLarge) {
  ExpectError(Compile(Request(std::string(limits::kRequestBytesMax + 1, 'x'))),
              absl::StatusCode::kResourceExhausted);
  ExpectError(Compile(Request(std::string(limits::kSourceBytesMax + 1, 'x'))),
              absl::StatusCode::kResourceExhausted);
  v1::LookupResponse response;
  EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), response).code(), 0);
}

TEST_P(RpcConformance, LookupTellsWhatIsStored) {
  const CompileJobPtr job = MakeJob("a");
  const auto artifact = MakeArtifactOf(*job);
  std::vector<Blob> blobs;
  for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
  ASSERT_TRUE(store_.index().Put({}, MakeRecord(*artifact), blobs).ok());
  v1::LookupRequest request;
  request.add_keys(std::string(Digest::Of("absent").Bytes()));
  request.add_keys(std::string(job->key.Bytes()));
  v1::LookupResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, request, response).code(), 0);
  ASSERT_EQ(response.entries_size(), 2);
  EXPECT_FALSE(response.entries(0).found());
  EXPECT_TRUE(response.entries(1).found());
  EXPECT_EQ(response.entries(1).key(), request.keys(1));
  ASSERT_GT(response.entries(1).stages_size(), 0);
  EXPECT_FALSE(response.entries(1).stages(0).has_content());

  request.add_keys("short");
  ExpectError(Call(v1::LIGHT_METHOD_LOOKUP, request, response), absl::StatusCode::kInvalidArgument,
              "keys[2]");
  request.clear_keys();
  for (size_t i = 0; i <= limits::kLookupKeysMax; ++i) request.add_keys(std::string(32, 'x'));
  ExpectError(Call(v1::LIGHT_METHOD_LOOKUP, request, response), absl::StatusCode::kInvalidArgument);
  request.mutable_keys()->RemoveLast();
  EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, request, response).code(), 0);
}

TEST_P(RpcConformance, NotedUsesCountOnceForEachPublishedKey) {
  const MadeArtifact published = MakeArtifact("published");
  const MadeArtifact withdrawn = MakeArtifact("withdrawn");
  for (const MadeArtifact& made : {published, withdrawn}) {
    ASSERT_TRUE(store_.Put({}, made.record, made.blobs).ok());
  }
  published_ = {published.record.key};
  const MetricGrowth growth{};
  v1::NoteUsesRequest request;
  for (const Digest& key :
       {published.record.key, withdrawn.record.key, published.record.key, Digest::Of("unknown")}) {
    request.add_keys(std::string(key.Bytes()));
  }
  v1::NoteUsesResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_NOTE_USES, request, response).code(), 0);
  const auto all = store_.Scan({}, std::nullopt, 10);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  for (const FoundArtifact& found : *all) {
    EXPECT_EQ(found.usage.hits, found.record->key == published.record.key ? 1u : 0u);
  }
  EXPECT_EQ(growth.Of("hot_uses"), 1);

  request.add_keys("short");
  ExpectError(Call(v1::LIGHT_METHOD_NOTE_USES, request, response),
              absl::StatusCode::kInvalidArgument, "keys[4]");
  request.clear_keys();
  for (size_t i = 0; i <= limits::kLookupKeysMax; ++i) request.add_keys(std::string(32, 'x'));
  ExpectError(Call(v1::LIGHT_METHOD_NOTE_USES, request, response),
              absl::StatusCode::kInvalidArgument, "4096");
}

TEST_P(RpcConformance, NearestSearchesAreFew) {
  v1::NearestRequest request;
  *request.mutable_request() = Request();
  v1::NearestResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_NEAREST, request, response).code(), 0);
  EXPECT_TRUE(response.key().empty());
  EXPECT_EQ(searches_, 0u);
  searches_ = limits::kNearestSearchesMax;
  ExpectError(Call(v1::LIGHT_METHOD_NEAREST, request, response),
              absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(searches_, limits::kNearestSearchesMax);
}

TEST_P(RpcConformance, FetchGivesTheWholeBlob) {
  const MadeArtifact made = MakeArtifact("large", 2 * limits::kFetchChunkBytes + 17);
  ASSERT_TRUE(store_.Put({}, made.record, made.blobs).ok());
  const Blob& blob = made.blobs.back();
  ASSERT_GT(blob.size_bytes(), 2 * limits::kFetchChunkBytes);
  v1::FetchRequest request;
  request.set_digest(std::string(blob.digest().Bytes()));
  v1::FetchChunk chunk;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_FETCH, request, chunk).code(), 0);
  EXPECT_EQ(chunk.content(), blob.bytes());
  request.set_digest(std::string(Digest::Of("absent").Bytes()));
  ExpectError(Call(v1::LIGHT_METHOD_FETCH, request, chunk), absl::StatusCode::kNotFound);
  request.set_digest("short");
  ExpectError(Call(v1::LIGHT_METHOD_FETCH, request, chunk), absl::StatusCode::kInvalidArgument,
              "digest");
}

TEST_P(RpcConformance, ListsToolchains) {
  v1::ListToolchainsResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_LIST_TOOLCHAINS, v1::ListToolchainsRequest(), response).code(),
            0);
  ASSERT_EQ(response.toolchains_size(), 1);
  EXPECT_EQ(response.toolchains(0).name(), "triton");
  EXPECT_TRUE(response.toolchains(0).is_default());
  EXPECT_GT(response.toolchains(0).backends_size(), 0);
}

TEST_P(RpcConformance, OwnEntriesAreTheCallersOwn) {
  v1::PutOwnRequest put;
  v1::OwnEntry& entry = *put.add_entries();
  entry.set_key("k");
  entry.add_files()->set_name("f");
  entry.mutable_files(0)->set_content("content");
  v1::PutOwnResponse stored;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_PUT_OWN, put, stored).code(), 0);
  v1::GetOwnRequest get;
  get.add_keys("k");
  v1::GetOwnResponse found;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_GET_OWN, get, found).code(), 0);
  ASSERT_EQ(found.entries_size(), 1);
  EXPECT_EQ(found.entries(0).files(0).content(), "content");

  v1::GetOwnResponse others;
  ASSERT_EQ(Open({2000, false})
                ->Call(v1::LIGHT_METHOD_GET_OWN, get.SerializeAsString(), others, {})
                .code(),
            0);
  EXPECT_EQ(others.entries_size(), 0);
  parts_.shared_uid = 1000;
  ExpectError(Call(v1::LIGHT_METHOD_GET_OWN, get, found), absl::StatusCode::kPermissionDenied);
  ExpectError(Call(v1::LIGHT_METHOD_PUT_OWN, put, stored), absl::StatusCode::kPermissionDenied);
  get.add_keys("");
  parts_.shared_uid.reset();
  ExpectError(Call(v1::LIGHT_METHOD_GET_OWN, get, found), absl::StatusCode::kInvalidArgument);
}

TEST_P(RpcConformance, ACompileEndsAtItsDeadline) {
  // Longer each time, until a request gets there before it ends.
  for (milliseconds timeout(20); provider_.started() == 0; timeout *= 2) {
    ExpectError(Compile(Request(), timeout), absl::StatusCode::kDeadlineExceeded);
  }
  ExpectNothingIsLeft();
}

// gRPC's client ends by itself; the light one hears what the code that both share says.
TEST_P(RpcConformance, ACallThatWaitsForAThreadEndsAtItsDeadline) {
  constexpr milliseconds kTimeout(1);
  v1::LookupRequest lookup;
  lookup.add_keys(std::string(32, 'x'));
  v1::NearestRequest nearest;
  *nearest.mutable_request() = Request("tt.func public @kernel() {}");
  v1::FetchRequest fetch;
  fetch.set_digest(std::string(32, 'x'));
  v1::GetOwnRequest get;
  get.add_keys("k");
  v1::PutOwnRequest put;
  put.add_entries()->set_key("k");
  const std::map<int, const Message*> requests = {{v1::LIGHT_METHOD_LOOKUP, &lookup},
                                                  {v1::LIGHT_METHOD_NEAREST, &nearest},
                                                  {v1::LIGHT_METHOD_FETCH, &fetch},
                                                  {v1::LIGHT_METHOD_GET_OWN, &get},
                                                  {v1::LIGHT_METHOD_PUT_OWN, &put}};
  for (const auto& [method, request] : requests) {
    SCOPED_TRACE(method);
    std::promise<void> release;
    executor_.Run([held = release.get_future().share()] { held.wait(); });
    const auto call = way_->Start(method, request->SerializeAsString(), kTimeout);
    v1::LookupResponse life;
    EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), life).code(), 0);
    // The daemon has read the call.
    std::this_thread::sleep_for(2 * kTimeout);
    release.set_value();
    std::string unused;
    ExpectError(call->Await(unused), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_P(RpcConformance, ACancelledCompileEnds) {
  const auto call = StartCompile("a");
  const auto other = StartCompile("b");
  AwaitHeld(2);
  call->Cancel();
  std::string unused;
  ExpectError(call->Await(unused), absl::StatusCode::kCancelled);
  ASSERT_TRUE(Comes([&] { return provider_.cancelled() > 0; }));
  EXPECT_EQ(provider_.held(), 1u);
  other->Cancel();
  ExpectError(other->Await(unused), absl::StatusCode::kCancelled);
  ExpectNothingIsLeft();
}

// Without an error. The limits differ: docs/reference.md has both.
TEST_P(RpcConformance, CallsBeyondTheLimitOfAConnectionWait) {
  const size_t limit =
      IsLight() ? limits::kStreamInFlightMax : limits::kConcurrentStreamsPerConnection;
  v1::LookupResponse life;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), life).code(), 0);
  std::vector<std::unique_ptr<Pending>> calls;
  const auto start = [&](size_t count) {
    while (count-- > 0) calls.push_back(StartCompile(std::to_string(calls.size())));
  };
  start(limit);
  const auto late = StartCompile("late", milliseconds(1));
  start(10);
  AwaitHeld(limit);
  EXPECT_EQ(Open()->Call(v1::LIGHT_METHOD_LOOKUP, "", life, {}).code(), 0);
  EXPECT_EQ(provider_.started(), limit);
  provider_.FinishOne();
  std::string unused;
  ExpectError(late->Await(unused), absl::StatusCode::kDeadlineExceeded);
  provider_.FinishAtOnce();
  provider_.FinishAll();
  for (const auto& call : calls) EXPECT_EQ(call->Await(unused).code(), 0);
}

TEST_P(RpcConformance, AClientThatGoesAwayEndsItsCompiles) {
  // As many as the daemon reads of a connection: it hears of the end without reading.
  const size_t limit =
      IsLight() ? limits::kStreamInFlightMax : limits::kConcurrentStreamsPerConnection;
  std::vector<std::unique_ptr<Pending>> calls;
  while (calls.size() < limit) calls.push_back(StartCompile(std::to_string(calls.size())));
  AwaitHeld(limit);
  way_->Close();
  ASSERT_TRUE(Comes([&] { return provider_.cancelled() >= limit; }));
  ExpectNothingIsLeft();
}

TEST_P(RpcConformance, NoAnswerIsLargerThanClientsReceive) {
  const CompileJobPtr job = MakeJob("a");
  const auto artifact = MakeArtifactOf(*job);
  ArtifactRecord record = MakeRecord(*artifact);
  // Metadata of that size would take an unoptimised parser a second.
  record.stages.front().stage = std::string(4 * limits::kMiB - limits::kKiB, 'x');
  std::vector<Blob> blobs;
  for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
  ASSERT_TRUE(store_.index().Put({}, record, blobs).ok());
  v1::LookupRequest request;
  for (size_t i = 0; i < 16; ++i) request.add_keys(std::string(job->key.Bytes()));
  v1::LookupResponse response;
  ASSERT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, request, response).code(), 0);
  EXPECT_EQ(response.entries_size(), 16);
  request.add_keys(std::string(job->key.Bytes()));
  ExpectError(Call(v1::LIGHT_METHOD_LOOKUP, request, response),
              absl::StatusCode::kResourceExhausted, "fewer keys");
}

TEST_P(RpcConformance, WhatIsNotTheMethodsMessageIsRefused) {
  for (int method = v1::LightMethod_MIN; method <= v1::LightMethod_MAX; ++method) {
    if (method == v1::LIGHT_METHOD_UNSPECIFIED || method == v1::LIGHT_METHOD_CANCEL) continue;
    for (const std::string_view body : {"\x0a\x05 cut", "no message"}) {
      v1::FetchChunk unused;
      ExpectError(way_->Call(method, body, unused, {}), absl::StatusCode::kInvalidArgument,
                  "the message is not a kiln.v1.");
    }
  }
  v1::LookupResponse life;
  EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, v1::LookupRequest(), life).code(), 0);
}

TEST_P(RpcConformance, UnknownFieldsOfANewerClientChangeNothing) {
  provider_.FinishAtOnce();
  constexpr int kNewField = 2000;
  v1::CompileRequest newer = Request();
  newer.GetReflection()->MutableUnknownFields(&newer)->AddVarint(kNewField, 7);
  v1::KernelSource& source = *newer.mutable_source();
  source.GetReflection()->MutableUnknownFields(&source)->AddLengthDelimited(kNewField, "new");
  EXPECT_EQ(Compile(Request()).code(), 0);
  EXPECT_EQ(Compile(newer).code(), 0);
  EXPECT_EQ(provider_.calls().at(0).job->key, provider_.calls().at(1).job->key);
  v1::LookupRequest lookup;
  lookup.GetReflection()->MutableUnknownFields(&lookup)->AddVarint(kNewField, 7);
  v1::LookupResponse response;
  EXPECT_EQ(Call(v1::LIGHT_METHOD_LOOKUP, lookup, response).code(), 0);
}

// gRPC says where it is. The light protocol has none of it, for operators neither.
TEST_P(RpcConformance, AdministrationIsNotForPlainUsers) {
  v1::LookupResponse unused;
  for (const Principal& principal : {Principal{1000, false}, Principal{0, true}}) {
    const auto way = Open(principal);
    for (int method = 0; method < 256 && IsLight(); ++method) {
      if (method != 0 && v1::LightMethod_IsValid(method)) continue;
      ExpectError(way->Call(method, "", unused, {}), absl::StatusCode::kUnimplemented);
    }
    provider_.FinishAtOnce();
    v1::CompileResponse response;
    const std::string request = Request().SerializeAsString();
    EXPECT_EQ(way->Call(v1::LIGHT_METHOD_COMPILE, request, response, {}).code(), 0);
    EXPECT_EQ(provider_.calls().back().context.principal, principal);
  }
  if (IsLight()) return;
  const auto admin = admin::v1::AdminService::NewStub(Connect());
  grpc::ClientContext context;
  admin::v1::DrainResponse response;
  const grpc::Status status = admin->Drain(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(status.error_message().find("admin.sock"), std::string::npos);
  EXPECT_EQ(drains_, 0);
}

TEST_P(RpcConformance, ABadRequestOfABatchIsAnsweredAlone) {
  provider_.FinishAtOnce();
  v1::CompileRequest without_target = Request();
  without_target.clear_target();
  const std::string good = Request().SerializeAsString();
  const std::string too_large =
      Request(std::string(limits::kSourceBytesMax + 1, 'x')).SerializeAsString();
  const std::vector<v1::RpcStatus> statuses =
      way_->Batch({good, without_target.SerializeAsString(), "no message", too_large, good});
  EXPECT_EQ(statuses.at(0).code(), 0);
  ExpectError(statuses.at(1), absl::StatusCode::kInvalidArgument, "target");
  ExpectError(statuses.at(2), absl::StatusCode::kInvalidArgument,
              "the message is not a kiln.v1.CompileRequest");
  ExpectError(statuses.at(3), absl::StatusCode::kResourceExhausted, "16777216");
  EXPECT_EQ(statuses.at(4).code(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, RpcConformance, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Light" : "Grpc"; });

}  // namespace
}  // namespace kiln
