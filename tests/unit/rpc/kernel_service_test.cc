#include "daemon/rpc/kernel_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <thread>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "daemon/rpc/compile_start.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/metric_growth.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

class KernelServiceTest : public ServiceTest {
 protected:
  grpc::Status Compile(const v1::CompileRequest& request, v1::CompileResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::CompileResponse unused;
    return stub_->Compile(&context, request, response == nullptr ? &unused : response);
  }

  // Stores what the fake compiler makes of a job.
  std::shared_ptr<const Artifact> Store(const CompileJob& job) {
    auto artifact = MakeArtifactOf(job);
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
    EXPECT_TRUE(store_.index().Put({}, MakeRecord(*artifact), blobs).ok());
    return artifact;
  }

  std::unique_ptr<v1::KernelService::Stub> stub_ = v1::KernelService::NewStub(Connect());
};

TEST_F(KernelServiceTest, TellsTheNearestArtifact) {
  v1::CompileRequest request = Request("tt.func public @kernel() {}");
  request.mutable_launch()->set_num_warps(8);
  const auto job = Prepare(parts_, v1::CompileRequest(request));
  ASSERT_TRUE(job.ok()) << job.status();
  auto artifact = MakeArtifactOf(*(*job)->job);
  const Blob stored = Blob::FromBytes(WriteRequest(*(*job)->job));
  ArtifactRecord record = MakeRecord(*artifact);
  record.stages.insert(record.stages.begin(),
                       {std::string(kRequestStage), stored.digest(), stored.size_bytes()});
  std::vector<Blob> blobs = {stored};
  for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
  ASSERT_TRUE(store_.index().Put({}, record, blobs).ok());

  v1::NearestRequest asked;
  *asked.mutable_request() = request;
  asked.mutable_request()->mutable_launch()->set_num_warps(2);
  v1::NearestResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Nearest(&context, asked, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.key(), artifact->key.Bytes());
  EXPECT_TRUE(response.has_seen_all());
  ASSERT_EQ(response.differences_size(), 1);
  EXPECT_EQ(response.differences(0).field(), "num_warps");
  EXPECT_EQ(response.differences(0).asked(), "2");
  EXPECT_EQ(response.differences(0).stored(), "8");

  grpc::ClientContext again;
  asked.mutable_request()->mutable_target()->set_backend("metal");
  EXPECT_EQ(stub_->Nearest(&again, asked, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(searches_, 0u);
}

TEST_F(KernelServiceTest, CountsForTheCallersUserAndJob) {
  provider_.FinishAtOnce();
  v1::CompileRequest request = Request();
  request.set_job("llama");
  ASSERT_TRUE(Compile(request).ok());
  provider_.AnswerWith([](const CompileJob& job) {
    CompileResult result = CompiledFrom(job);
    result.outcome = Outcome::kHit;
    result.tier = Tier::kDisk;
    return result;
  });
  ASSERT_TRUE(Compile(request).ok());
  provider_.AnswerWith([](const CompileJob&) {
    CompileResult remembered = FailedWith("does not parse");
    remembered.outcome = Outcome::kHit;
    return remembered;
  });
  ASSERT_FALSE(Compile(request).ok());
  const std::vector<JobActivity> jobs = activity_.List();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].uid, 1000u);
  EXPECT_EQ(jobs[0].job, "llama");
  EXPECT_EQ(jobs[0].Of(ActivityKind::kDisk).kernels, 1u);
  EXPECT_EQ(jobs[0].Of(ActivityKind::kDisk).saved_micros, 30u);
  EXPECT_GT(jobs[0].Of(ActivityKind::kDisk).bytes, 0u);
  EXPECT_EQ(jobs[0].Of(ActivityKind::kCompiled), ActivityCount{1});
  EXPECT_EQ(jobs[0].Of(ActivityKind::kFailed), ActivityCount{1});
}

TEST_F(KernelServiceTest, ACompileForAJobThatWasWarmedIsAMissAfterWarm) {
  provider_.FinishAtOnce();
  v1::CompileRequest request = Request();
  request.set_job("llama");
  const auto missed = [&] {
    v1::CompileResponse response;
    EXPECT_TRUE(Compile(request, &response).ok());
    return response.missed_after_warm();
  };
  EXPECT_FALSE(missed());
  request.set_priority(v1::PRIORITY_WARM);
  EXPECT_FALSE(missed());
  request.set_priority(v1::PRIORITY_WAITING_RANK);
  EXPECT_TRUE(missed());
  request.set_job("another");
  EXPECT_FALSE(missed());
  for (const JobActivity& job : activity_.List()) {
    const uint64_t is_warmed = job.job == "llama" ? 1 : 0;
    EXPECT_EQ(job.Of(ActivityKind::kWarmed).kernels, is_warmed);
    EXPECT_EQ(job.Of(ActivityKind::kMissed).kernels, is_warmed);
    EXPECT_EQ(job.Of(ActivityKind::kCompiled).kernels, 1 + is_warmed);
  }
}

TEST_F(KernelServiceTest, WhatAClientTellsCountsForItselfWithinLimits) {
  v1::NoteUsesRequest request;
  for (const auto place : {v1::ToldHits::HOT, v1::ToldHits::OWN, v1::ToldHits::PLACE_UNSPECIFIED}) {
    v1::ToldHits& told = *request.add_hits();
    told.set_job("llama");
    told.set_place(place);
    told.set_count(UINT64_MAX);
    told.set_saved_micros(UINT64_MAX);
    told.set_bytes(UINT64_MAX);
  }
  const auto tell = [&] {
    grpc::ClientContext context;
    v1::NoteUsesResponse response;
    return stub_->NoteUses(&context, request, &response);
  };
  ASSERT_TRUE(tell().ok());
  const std::vector<JobActivity> jobs = activity_.List();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].uid, 1000u);
  constexpr uint64_t kMost = limits::kToldHitCountMax;
  const ActivityCount most = {kMost, kMost * 300'000'000, kMost * limits::kToldHitBytesMax};
  EXPECT_EQ(jobs[0].Of(ActivityKind::kHot), most);
  EXPECT_EQ(jobs[0].Of(ActivityKind::kOwn), most);
  while (request.hits_size() <= static_cast<int>(limits::kToldHitsMax)) request.add_hits();
  EXPECT_EQ(tell().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(KernelServiceTest, WhatAWarmFindsInTheHotDirectoryIsLeasedAndAJobsHitIsNot) {
  const MadeArtifact made = MakeArtifact("here");
  ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
  published_ = {made.record.key};
  v1::NoteUsesRequest request;
  request.add_keys(std::string(made.record.key.Bytes()));
  const auto tell = [&] {
    grpc::ClientContext context;
    v1::NoteUsesResponse response;
    return stub_->NoteUses(&context, request, &response);
  };
  const auto uses = [&] { return store_.index().ScanUsages({}, {}, 1)->at(0).usage.hits; };
  ASSERT_TRUE(tell().ok());
  EXPECT_FALSE(leases_.Holds(made.record.key));
  EXPECT_EQ(uses(), 1u);
  request.set_is_warm(true);
  ASSERT_TRUE(tell().ok());
  EXPECT_TRUE(leases_.Holds(made.record.key));
  EXPECT_EQ(uses(), 1u);
}

TEST_F(KernelServiceTest, WhatAWarmCompilesIsLeasedAndWhatAJobCompilesIsNot) {
  provider_.FinishAtOnce();
  const auto is_leased_after = [&](v1::Priority priority) {
    v1::CompileRequest request = Request(std::to_string(priority));
    request.set_priority(priority);
    v1::CompileResponse response;
    EXPECT_TRUE(Compile(request, &response).ok());
    return leases_.Holds(*Digest::FromBytes(response.key()));
  };
  EXPECT_FALSE(is_leased_after(v1::PRIORITY_WAITING_RANK));
  EXPECT_FALSE(is_leased_after(v1::PRIORITY_AUTOTUNE));
  EXPECT_TRUE(is_leased_after(v1::PRIORITY_WARM));
  EXPECT_TRUE(is_leased_after(v1::PRIORITY_BACKGROUND));
}

TEST_F(KernelServiceTest, AWarmHearsWhatIsNotLeased) {
  provider_.FinishAtOnce();
  const MadeArtifact made = MakeArtifact("here");
  ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
  published_ = {made.record.key};
  v1::NoteUsesRequest told;
  told.add_keys(std::string(made.record.key.Bytes()));
  told.set_is_warm(true);
  v1::CompileRequest request = Request();
  request.set_priority(v1::PRIORITY_WARM);
  const auto not_leased = [&] {
    grpc::ClientContext context;
    v1::NoteUsesResponse noted;
    v1::CompileResponse response;
    EXPECT_TRUE(stub_->NoteUses(&context, told, &noted).ok());
    EXPECT_TRUE(Compile(request, &response).ok());
    return std::pair(noted.not_leased_size(), response.not_leased());
  };
  ASSERT_TRUE(leases_.Lease(1000, Digest::Of("all"), WarmLeaseLimits().bytes_per_user_max));
  EXPECT_EQ(not_leased(), std::pair(1, true));
  request.set_priority(v1::PRIORITY_WAITING_RANK);
  EXPECT_EQ(not_leased(), std::pair(1, false));
  leases_.OnRemove(Digest::Of("all"));
  request.set_priority(v1::PRIORITY_WARM);
  EXPECT_EQ(not_leased(), std::pair(0, false));
}

TEST_F(KernelServiceTest, AQuestionWhetherSomethingIsThereIsNoRequest) {
  const MetricGrowth growth{};
  v1::CompileRequest request = Request();
  request.set_priority(v1::PRIORITY_BACKGROUND);
  request.set_cache_policy(v1::CACHE_POLICY_ONLY_IF_CACHED);
  request.set_toolchain("triton==0.0.1");
  EXPECT_FALSE(Compile(request).ok());
  EXPECT_EQ(growth.Of("requests"), 0);
  request.set_priority(v1::PRIORITY_WAITING_RANK);  // a job that may not compile
  EXPECT_FALSE(Compile(request).ok());
  EXPECT_EQ(growth.Of("requests"), 1);
  EXPECT_EQ(growth.Of("rejected"), 1);
}

TEST_F(KernelServiceTest, KeysOfAnEarlierClientAreHitsOfNoJob) {
  published_.insert(Digest::Of("here"));
  v1::NoteUsesRequest request;
  for (const char* key : {"here", "not here"}) {
    request.add_keys(std::string(Digest::Of(key).Bytes()));
  }
  grpc::ClientContext context;
  v1::NoteUsesResponse response;
  ASSERT_TRUE(stub_->NoteUses(&context, request, &response).ok());
  ASSERT_EQ(activity_.List().size(), 1u);
  EXPECT_EQ(activity_.List()[0].job, "");
  EXPECT_EQ(activity_.List()[0].Of(ActivityKind::kHot).kernels, 1u);
}

TEST_F(KernelServiceTest, RequestSeenBeforeIsStillTheCallersOwn) {
  provider_.FinishAtOnce();
  const auto other = v1::KernelService::NewStub(Connect({2000, false}));
  for (v1::KernelService::Stub* stub : {stub_.get(), other.get(), stub_.get()}) {
    grpc::ClientContext context;
    v1::CompileResponse response;
    ASSERT_TRUE(stub->Compile(&context, Request(), &response).ok());
  }
  const auto calls = provider_.calls();
  EXPECT_EQ(calls.at(0).job, calls.at(1).job);  // prepared once
  EXPECT_EQ(calls.at(0).context.principal.uid, 1000u);
  EXPECT_EQ(calls.at(1).context.principal.uid, 2000u);
  Cancellation first = calls.at(0).context.cancellation;
  first.Cancel();
  EXPECT_FALSE(calls.at(2).context.cancellation.IsCancelled());
}

TEST_F(KernelServiceTest, ClientThatLeavesCancelsItsCompile) {
  grpc::ClientContext context;
  grpc::Status status;
  std::thread caller([&] {
    v1::CompileResponse response;
    status = stub_->Compile(&context, Request(), &response);
  });
  AwaitHeld(1);
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  while (provider_.cancelled() == 0) std::this_thread::yield();
  gate_.Close();
  EXPECT_TRUE(gate_.AwaitEmpty(SteadyTime::max()));
}

TEST_F(KernelServiceTest, UnknownEnumValuesOfANewerClientAreNamed) {
  const MetricGrowth growth{};
  v1::CompileRequest request = Request();
  request.mutable_source()->set_kind(static_cast<v1::SourceKind>(77));
  grpc::Status status = Compile(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("source.kind = 77"));
  request = Request();
  request.set_cache_policy(static_cast<v1::CachePolicy>(9));
  EXPECT_THAT(Compile(request).error_message(), HasSubstr("cache_policy = 9"));
  request = Request();
  request.set_priority(static_cast<v1::Priority>(-1));
  EXPECT_THAT(Compile(request).error_message(), HasSubstr("priority = -1"));
  EXPECT_EQ(growth.Of("requests"), 3);
  EXPECT_EQ(growth.Of("rejected"), 3);
}

TEST_F(KernelServiceTest, FailureCarriesTheCompilersWords) {
  provider_.FinishAtOnce();
  provider_.AnswerWith([](const CompileJob&) {
    CompileFailure failure;
    failure.stage = "ptx";
    failure.message = "unexpected token";
    failure.line = 3;
    failure.column = 7;
    failure.output =
        "kernel.cu(3): error: unexpected token\nkernel.cu(1): note #7: declared here\n";
    for (int i = 0; i < 9; ++i) {
      failure.output += "a.h(1): note #7: " + std::string(200, 'y') + "\n";
    }
    failure.output += std::string(100'000, 'x') + "\xff the end";
    CompileResult result;
    result.value = std::make_shared<const CompileFailure>(failure);
    return absl::StatusOr<CompileResult>(result);
  });
  const grpc::Status status = Compile(Request());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ptx: unexpected token (line 3, column 7)"));
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), status.error_message());
  v1::CompileDiagnostics diagnostics;
  ASSERT_TRUE(details.details(0).UnpackTo(&diagnostics));
  EXPECT_EQ(diagnostics.line(), 3);
  EXPECT_EQ(diagnostics.key().size(), 32u);
  EXPECT_THAT(diagnostics.output(), ::testing::EndsWith(" the end"));
  // As many notes as leave room for the output.
  ASSERT_GE(diagnostics.notes_size(), 2);
  EXPECT_LE(diagnostics.notes_size(), 6);
  EXPECT_EQ(diagnostics.notes(0).file(), "");
  EXPECT_EQ(diagnostics.notes(0).line(), 1);
  EXPECT_EQ(diagnostics.notes(0).message(), "declared here");
  EXPECT_EQ(diagnostics.notes(1).file(), "a.h");
  // This channel accepts gRPC's default of 8 KiB.
  EXPECT_LE(status.error_details().size(), 6u * 1024);
}

TEST_F(KernelServiceTest, LongMessagesStayBelowTheDefaultTrailerLimit) {
  provider_.FinishAtOnce();
  std::string message;
  for (int i = 0; i < 20'000; ++i) message += "\xc3\xa4\n";
  provider_.AnswerWith([&](const CompileJob&) -> absl::StatusOr<CompileResult> {
    return WithRetryAfter(absl::ResourceExhaustedError(message), std::chrono::milliseconds(1500));
  });
  const grpc::Status status = Compile(Request());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::StartsWith("\xc3\xa4\n"));
  v1::RpcStatus details;
  v1::RetryHint hint;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_TRUE(details.details(0).UnpackTo(&hint));
  EXPECT_EQ(hint.retry_after_ms(), 1500u);
}

TEST_F(KernelServiceTest, UnreadableRecordIsNotFound) {
  const CompileJobPtr job = MakeJob("a");
  Store(*job);
  for (const absl::Status& fault : {DataLoss("damaged"), FailedPrecondition("of a newer daemon")}) {
    faults_.FailGets(fault);
    v1::LookupRequest request;
    request.add_keys(std::string(job->key.Bytes()));
    grpc::ClientContext context;
    v1::LookupResponse response;
    const grpc::Status status = stub_->Lookup(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(response.entries(0).found());
  }
}

TEST_F(KernelServiceTest, SignOfLifeWaitsBehindNobody) {
  std::promise<void> release;
  executor_.Run([held = release.get_future().share()] { held.wait(); });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  v1::LookupResponse response;
  const grpc::Status status = stub_->Lookup(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  release.set_value();
}

TEST_F(KernelServiceTest, FetchInChunks) {
  const MadeArtifact made = MakeArtifact("large", 2 * limits::kFetchChunkBytes + 17);
  ASSERT_TRUE(store_.Put({}, made.record, made.blobs).ok());
  const Blob& blob = made.blobs.back();
  ASSERT_GT(blob.size_bytes(), 2 * limits::kFetchChunkBytes);
  grpc::ClientContext context;
  v1::FetchRequest request;
  request.set_digest(std::string(blob.digest().Bytes()));
  const auto reader = stub_->Fetch(&context, request);
  v1::FetchChunk chunk;
  std::string content;
  while (reader->Read(&chunk)) {
    EXPECT_LE(chunk.content().size(), limits::kFetchChunkBytes);
    content += chunk.content();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(content, blob.bytes());
}

TEST_F(KernelServiceTest, AnswersThatNobodyReadsAreRefusedBeyondTheBudget) {
  parts_.unread.reset(new SharedBytes{2 * limits::kMiB});
  const auto others = std::make_shared<ByteBudget>(parts_.unread)->Take(1);
  const auto stub = v1::KernelService::NewStub(Connect({1001, false}));
  const MadeArtifact made = MakeArtifact("large", 2 * limits::kMiB);
  ASSERT_TRUE(store_.Put({}, made.record, made.blobs).ok());
  provider_.FinishAtOnce();
  provider_.AnswerWith([&](const CompileJob& job) {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.back().blob = made.blobs.back();
    return CompileResult{Outcome::kCompiled, std::nullopt, std::move(artifact)};
  });
  const auto expect_refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(),
                HasSubstr("the daemon holds 0 bytes for this user, 1 for all"));
  };
  {
    grpc::ClientContext context;
    v1::CompileResponse response;
    expect_refused(stub->Compile(&context, Request(), &response));
  }
  {
    grpc::ClientContext context;
    v1::FetchRequest request;
    request.set_digest(std::string(made.blobs.back().digest().Bytes()));
    const auto reader = stub->Fetch(&context, request);
    v1::FetchChunk chunk;
    EXPECT_FALSE(reader->Read(&chunk));
    expect_refused(reader->Finish());
  }
  {
    grpc::ClientContext context;
    const auto stream = stub->CompileStream(&context);
    v1::CompileStreamRequest item;
    *item.mutable_request() = Request();
    stream->Write(item);
    v1::CompileStreamResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_FALSE(answer.has_response());
    expect_refused({static_cast<grpc::StatusCode>(answer.code()), answer.message()});
  }
  CallContext caller;
  caller.principal = {1001, false};
  const std::string content(limits::kMiB, 'x');
  ASSERT_TRUE(own_.Put(caller, "key", {UserCacheFile{"x", content, {}, {}}}).ok());
  {
    grpc::ClientContext context;
    v1::GetOwnRequest request;
    request.add_keys("key");
    v1::GetOwnResponse response;
    expect_refused(stub->GetOwn(&context, request, &response));
  }
  EXPECT_EQ(parts_.unread->bytes, 1u);
}

}  // namespace
}  // namespace kiln
