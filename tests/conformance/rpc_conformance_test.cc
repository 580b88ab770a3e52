// Both ways in, gRPC and the light protocol, give the same answers, errors and limits.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <memory>
#include <thread>

#include "daemon/kernel/artifact_document.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/metric_growth.h"
#include "tests/unit/rpc/light_client.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using google::protobuf::Message;
using google::protobuf::MessageLite;
using std::chrono::milliseconds;

// A connection over one of the ways.
class Way {
 public:
  virtual ~Way() = default;
  // `response` is filled where the status is OK. Zero: no timeout.
  virtual v1::RpcStatus Call(int method, const Message& request, Message& response,
                             milliseconds timeout) = 0;
};

class LightWay final : public Way {
 public:
  explicit LightWay(UniqueFd socket) : client_(std::move(socket)) {}

  v1::RpcStatus Call(int method, const Message& request, Message& response,
                     milliseconds timeout) override {
    const LightAnswer answer =
        client_.Call(method, request, static_cast<uint32_t>(timeout.count()));
    EXPECT_TRUE(answer.code != 0 || response.ParseFromString(answer.body));
    return answer.status();
  }

 private:
  LightClient client_;
};

class GrpcWay final : public Way {
 public:
  explicit GrpcWay(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  v1::RpcStatus Call(int method, const Message& request, Message& response,
                     milliseconds timeout) override {
    grpc::ClientContext context;
    if (timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + timeout);
    if (method == v1::LIGHT_METHOD_FETCH) return Fetch(context, request, response);
    static const char* const kNames[] = {"None",  "Compile",        "Lookup", "Nearest",
                                         "Fetch", "ListToolchains", "GetOwn", "PutOwn",
                                         "None",  "NoteUses"};
    const std::string name =
        std::string("/kiln.v1.KernelService/") +
        (method < static_cast<int>(std::size(kNames)) ? kNames[method] : "None");
    const grpc::internal::RpcMethod called(name.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
                                           channel_);
    return ToStatus(
        grpc::internal::BlockingUnaryCall<MessageLite, MessageLite, MessageLite, MessageLite>(
            channel_.get(), called, &context, request, &response));
  }

 private:
  v1::RpcStatus Fetch(grpc::ClientContext& context, const Message& request, Message& response) {
    const auto stub = v1::KernelService::NewStub(channel_);
    const auto reader = stub->Fetch(&context, dynamic_cast<const v1::FetchRequest&>(request));
    auto& whole = dynamic_cast<v1::FetchChunk&>(response);
    for (v1::FetchChunk chunk; reader->Read(&chunk);) *whole.mutable_content() += chunk.content();
    return ToStatus(reader->Finish());
  }

  // A status without details travels as gRPC's own code and message.
  static v1::RpcStatus ToStatus(const grpc::Status& status) {
    v1::RpcStatus out;
    EXPECT_TRUE(out.ParseFromString(status.error_details()));
    out.set_code(status.error_code());
    out.set_message(status.error_message());
    return out;
  }

  const std::shared_ptr<grpc::Channel> channel_;
};

class RpcConformance : public ServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<Way> Open(const Principal& principal = {1000, false}) {
    if (GetParam()) return std::make_unique<LightWay>(ConnectLight(principal));
    return std::make_unique<GrpcWay>(Connect(principal));
  }
  v1::RpcStatus Call(int method, const Message& request, Message& response,
                     milliseconds timeout = {}) {
    return way_->Call(method, request, response, timeout);
  }
  v1::RpcStatus Compile(const v1::CompileRequest& request) {
    v1::CompileResponse unused;
    return Call(v1::LIGHT_METHOD_COMPILE, request, unused);
  }

  const std::unique_ptr<Way> way_ = Open();
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
  ASSERT_EQ(Open({2000, false})->Call(v1::LIGHT_METHOD_GET_OWN, get, others, {}).code(), 0);
  EXPECT_EQ(others.entries_size(), 0);
  parts_.shared_uid = 1000;
  ExpectError(Call(v1::LIGHT_METHOD_GET_OWN, get, found), absl::StatusCode::kPermissionDenied);
  ExpectError(Call(v1::LIGHT_METHOD_PUT_OWN, put, stored), absl::StatusCode::kPermissionDenied);
  get.add_keys("");
  parts_.shared_uid.reset();
  ExpectError(Call(v1::LIGHT_METHOD_GET_OWN, get, found), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Ways, RpcConformance, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Light" : "Grpc"; });

}  // namespace
}  // namespace kiln
