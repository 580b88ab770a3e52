#include "daemon/rpc/admin_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <set>

#include "daemon/chain/caching_provider.h"
#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "tests/testing/inline_executor.h"
#include "tests/testing/result_probe.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdminServiceTest : public ServiceTest {
 protected:
  std::string Store(const std::string& source) {
    const CompileJobPtr job = MakeJob(source);
    const auto artifact = MakeArtifactOf(*job);
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
    EXPECT_TRUE(store_.index().Put({}, MakeRecord(*artifact), blobs).ok());
    return std::string(job->key.Bytes());
  }
  grpc::Status GetRequest(const std::string& key_prefix, admin::v1::GetRequestResponse* response) {
    grpc::ClientContext context;
    admin::v1::GetRequestRequest request;
    request.set_key_prefix(key_prefix);
    response->Clear();
    return stub_->GetRequest(&context, request, response);
  }
  grpc::Status Evict(const admin::v1::EvictRequest& request, admin::v1::EvictResponse* response) {
    grpc::ClientContext context;
    return stub_->Evict(&context, request, response);
  }

  std::unique_ptr<admin::v1::AdminService::Stub> stub_ =
      admin::v1::AdminService::NewStub(Connect({0, true}));
};

TEST_F(AdminServiceTest, ListsPageByPage) {
  std::set<std::string> stored;
  for (int i = 0; i < 5; ++i) stored.insert(Store(std::to_string(i)));
  admin::v1::ListArtifactsRequest request;
  request.set_limit(2);
  std::vector<std::string> listed;
  for (int page = 0; page < 3; ++page) {
    grpc::ClientContext context;
    admin::v1::ListArtifactsResponse response;
    ASSERT_TRUE(stub_->ListArtifacts(&context, request, &response).ok());
    EXPECT_EQ(response.next().empty(), page == 2);
    for (const auto& artifact : response.artifacts()) listed.push_back(artifact.key());
    request.set_after(response.next());
  }
  EXPECT_EQ(listed, std::vector<std::string>(stored.begin(), stored.end()));
}

TEST_F(AdminServiceTest, AnEntryOfAUsersOwnIsListedAndEvictedButNeitherInspectedNorPinned) {
  CallContext alice;
  alice.principal.uid = 1000;
  ASSERT_TRUE(own_.Put(alice, "key", {{"file", "content", std::nullopt, Digest()}}).ok());
  const Digest key = UserCacheKey(1000, "key");

  admin::v1::ListArtifactsResponse listed;
  grpc::ClientContext list_context;
  ASSERT_TRUE(stub_->ListArtifacts(&list_context, {}, &listed).ok());
  ASSERT_EQ(listed.artifacts_size(), 1);
  EXPECT_EQ(listed.artifacts(0).own_uid(), 1000u);
  EXPECT_EQ(listed.artifacts(0).size_bytes(), kUserCacheSaltBytes + 7);

  admin::v1::InspectArtifactRequest inspect;
  inspect.set_key_prefix(key.Hex());
  admin::v1::InspectArtifactResponse inspected;
  grpc::ClientContext inspect_context;
  EXPECT_EQ(stub_->InspectArtifact(&inspect_context, inspect, &inspected).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  admin::v1::GetRequestResponse request;
  EXPECT_EQ(GetRequest(key.Hex(), &request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  admin::v1::PinRequest pin;
  pin.set_key(std::string(key.Bytes()));
  pin.set_pinned(true);
  admin::v1::PinResponse pinned;
  grpc::ClientContext pin_context;
  EXPECT_EQ(stub_->Pin(&pin_context, pin, &pinned).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);

  admin::v1::EvictRequest evict;
  evict.add_keys(std::string(key.Bytes()));
  admin::v1::EvictResponse evicted;
  ASSERT_TRUE(Evict(evict, &evicted).ok());
  EXPECT_EQ(evicted.evicted(), 1u);
  EXPECT_EQ(user_quota_.Stats().entries, 0u);
}

TEST_F(AdminServiceTest, ListsAndInspectsByTheBeginningOfAKey) {
  const std::string key = Store("a");
  Store("b");
  const std::string hex = Digest::FromBytes(key)->Hex();
  admin::v1::ListArtifactsRequest request;
  request.set_key_prefix(hex.substr(0, 10));
  admin::v1::ListArtifactsResponse list;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ListArtifacts(&context, request, &list).ok());
  ASSERT_EQ(list.artifacts_size(), 1);
  EXPECT_EQ(list.artifacts(0).key(), key);

  const auto inspect = [&](const std::string& prefix) {
    grpc::ClientContext own;
    admin::v1::InspectArtifactRequest ask;
    ask.set_key_prefix(prefix);
    admin::v1::InspectArtifactResponse response;
    return stub_->InspectArtifact(&own, ask, &response).error_code();
  };
  EXPECT_EQ(inspect(hex), grpc::StatusCode::OK);
  EXPECT_EQ(inspect(hex.substr(0, 4)), grpc::StatusCode::OK);
  EXPECT_EQ(inspect(hex.substr(0, 3)), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(inspect("xyzw"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(inspect(hex + "0"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(inspect(std::string(64, '0')), grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminServiceTest, EvictsNamedArtifactsUnlessPinned) {
  const std::string pinned = Store("a");
  const std::string other = Store("b");
  admin::v1::PinRequest pin;
  pin.set_key(pinned);
  pin.set_pinned(true);
  admin::v1::PinResponse none;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Pin(&context, pin, &none).ok());

  admin::v1::EvictRequest request;
  request.add_keys(pinned);
  request.add_keys(other);
  request.add_keys(std::string(32, 'x'));
  admin::v1::EvictResponse response;
  ASSERT_TRUE(Evict(request, &response).ok());
  EXPECT_EQ(response.evicted(), 1u);
  EXPECT_GT(response.freed_bytes(), 0u);
  EXPECT_THAT(response.kept_pinned(), ::testing::ElementsAre(pinned));
  EXPECT_THAT(response.not_found(), ::testing::ElementsAre(std::string(32, 'x')));

  Store("c");
  admin::v1::EvictRequest all;
  all.set_all(true);
  admin::v1::EvictResponse rest;
  ASSERT_TRUE(Evict(all, &rest).ok());
  EXPECT_EQ(rest.evicted(), 1u);
  EXPECT_EQ(store_.Stats().artifacts, 1u);
}

TEST_F(AdminServiceTest, EvictingReleasesFromQuarantine) {
  for (const char* source : {"x", "a", "b"}) negatives_.RememberCrash(MakeJob(source), "SIGSEGV");
  const std::string key(MakeJob("x")->key.Bytes());
  admin::v1::EvictRequest request;
  request.add_keys(key);
  admin::v1::EvictResponse response;
  ASSERT_TRUE(Evict(request, &response).ok());
  EXPECT_EQ(response.released(), 1u);
  EXPECT_EQ(response.not_found_size(), 0);
  EXPECT_EQ(negatives_.CrashCount(), 2u);

  admin::v1::EvictResponse again;
  ASSERT_TRUE(Evict(request, &again).ok());
  EXPECT_EQ(again.released(), 0u);
  EXPECT_EQ(again.not_found_size(), 1);

  admin::v1::EvictRequest all;
  all.set_all(true);
  ASSERT_TRUE(Evict(all, &response).ok());
  EXPECT_EQ(response.released(), 2u);
}

TEST_F(AdminServiceTest, GivesTheRequestOfARememberedFailure) {
  const CompileJobPtr job = MakeJob("module {}");
  negatives_.RememberFailure(job, std::get<FailurePtr>(FailedWith("does not parse").value));
  admin::v1::GetRequestResponse response;
  EXPECT_EQ(GetRequest(job->key.Hex(), &response).error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(response.key(), std::string(job->key.Bytes()));
  EXPECT_EQ(response.request(), WriteRequest(*job));
  EXPECT_EQ(response.diagnostics().message(), "does not parse");
  EXPECT_EQ(response.stages_size(), 0);

  negatives_.RememberCrash(job, "SIGSEGV");
  ASSERT_TRUE(GetRequest(job->key.Hex(), &response).ok());
  EXPECT_EQ(response.crash(), "SIGSEGV");
  EXPECT_FALSE(response.has_diagnostics());
}

TEST_F(AdminServiceTest, GivesTheRequestOfAnArtifact) {
  const CompileJobPtr job = MakeJob("module {}");
  FakeProvider fake;
  fake.FinishAtOnce();
  InlineExecutor at_once;
  NegativeCache negatives(clock_, std::chrono::minutes(10));
  CachingProvider caching(std::make_unique<BorrowedProvider>(fake), store_.index(), store_.blobs(),
                          negatives, clock_, at_once);
  ResultProbe probe;
  caching.Compile({}, job, probe.Done());
  ASSERT_TRUE(probe.Result().ok());
  admin::v1::GetRequestResponse response;
  ASSERT_TRUE(GetRequest(job->key.Hex().substr(0, 8), &response).ok());
  EXPECT_EQ(response.request(), WriteRequest(*job));
  ASSERT_EQ(response.stages_size(), 2);
  EXPECT_EQ(response.stages(0).stage(), "ptx");
  EXPECT_EQ(response.stages(1).stage(), "cubin");
}

TEST_F(AdminServiceTest, HasNoRequestOfMissingAndOldArtifacts) {
  admin::v1::GetRequestResponse response;
  EXPECT_EQ(GetRequest(std::string(64, '0'), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  for (const char* prefix : {"", "abc", "not hex", "../../etc"}) {
    EXPECT_EQ(GetRequest(prefix, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << prefix;
  }
  // As a kilnd before this one stored it.
  const std::string old = Store("a");
  const grpc::Status status = GetRequest(Digest::FromBytes(old)->Hex(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--cache refresh"));
}

TEST_F(AdminServiceTest, RefusesRequestsWithoutNames) {
  admin::v1::EvictResponse response;
  EXPECT_EQ(Evict({}, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  admin::v1::PinRequest pin;
  pin.set_key("short");
  admin::v1::PinResponse none;
  const grpc::Status status = stub_->Pin(&context, pin, &none);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("key"));
}

TEST_F(AdminServiceTest, ToolchainsAreListedReloadedAndChosen) {
  grpc::ClientContext reloading;
  admin::v1::ReloadToolchainsResponse reloaded;
  EXPECT_TRUE(stub_->ReloadToolchains(&reloading, {}, &reloaded).ok());
  for (const std::string selector : {"triton==3.6.0", "triton==9.9.9"}) {
    grpc::ClientContext context;
    admin::v1::SetDefaultToolchainRequest request;
    request.set_selector(selector);
    admin::v1::SetDefaultToolchainResponse response;
    const grpc::Status status = stub_->SetDefaultToolchain(&context, request, &response);
    EXPECT_EQ(status.ok(), selector == "triton==3.6.0") << status.error_message();
  }
  grpc::ClientContext context;
  admin::v1::ListToolchainsResponse here;
  ASSERT_TRUE(stub_->ListToolchains(&context, {}, &here).ok());
  ASSERT_EQ(here.toolchains_size(), 1);
  EXPECT_EQ(here.toolchains(0).toolchain().name(), "triton");
  EXPECT_TRUE(here.toolchains(0).toolchain().is_default());
  EXPECT_THAT(here.toolchains(0).default_kinds(), ElementsAre(v1::SOURCE_KIND_TTIR));
  EXPECT_EQ(here.toolchains(0).path(), "/toolchains/triton-3.6.0");
  EXPECT_EQ(here.toolchains(0).remarks(0), "not used for hip: it is slow");
  EXPECT_EQ(here.rejected(0).reason(), "it does not run");
  EXPECT_EQ(here.directories(0), "/x");
  EXPECT_EQ(here.default_selector(), "triton==3.6.0");

  // Others are told no paths, and no reasons, which may have some.
  const auto own = admin::v1::OwnService::NewStub(Connect({1000, false}));
  grpc::ClientContext of_user;
  admin::v1::ListToolchainsResponse shown;
  ASSERT_TRUE(own->ListToolchains(&of_user, {}, &shown).ok());
  admin::v1::HeldToolchain& known = *here.mutable_toolchains(0);
  EXPECT_EQ(known.state(), "failed: /x does not run");
  known.clear_path();
  known.clear_installation();
  known.clear_remarks();
  known.set_state("failed");
  here.clear_rejected();
  here.clear_directories();
  EXPECT_EQ(shown.SerializeAsString(), here.SerializeAsString());
}

TEST_F(AdminServiceTest, OnlyRootAndTheDaemonsUserAddAndRemoveToolchains) {
  int changes = 0;
  actions_.add_toolchain = [&](const ToolchainAddition&) -> absl::StatusOr<AddedToolchain> {
    ++changes;
    return NotFound("there is none");
  };
  actions_.remove_toolchain = [&](const std::string&) -> absl::StatusOr<RemovedInstallation> {
    ++changes;
    return NotFound("there is none");
  };
  admin::v1::AddToolchainRequest added;
  added.set_name("triton");
  added.set_path("/x");
  admin::v1::RemoveToolchainRequest removed;
  removed.set_selector("triton==3.6.0");
  const auto change = [&](uid_t uid) {
    const auto stub = admin::v1::AdminService::NewStub(Connect({uid, true}));
    grpc::ClientContext adding, removing;
    admin::v1::AddToolchainResponse addition;
    admin::v1::RemoveToolchainResponse removal;
    const auto code = stub->AddToolchain(&adding, added, &addition).error_code();
    EXPECT_EQ(stub->RemoveToolchain(&removing, removed, &removal).error_code(), code);
    return code;
  };
  EXPECT_EQ(change(::geteuid() + 1), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(change(0), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(change(::geteuid()), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(changes, 4);
}

TEST_F(AdminServiceTest, DrainAndStats) {
  grpc::ClientContext context;
  admin::v1::DrainResponse drained;
  EXPECT_TRUE(stub_->Drain(&context, {}, &drained).ok());
  EXPECT_EQ(drains_, 1);
  grpc::ClientContext second;
  admin::v1::GetStatsResponse stats;
  EXPECT_TRUE(stub_->GetStats(&second, {}, &stats).ok());
  EXPECT_EQ(stats.version(), "test");
  EXPECT_EQ(stats.state(), "serving");
}

TEST_F(AdminServiceTest, ListsWhatTheFiltersLeave) {
  const auto store = [this](const std::string& source, uid_t uid, const std::string& job) {
    CompileJob compiled = *MakeJob(source);
    compiled.request.target = {"hip", source == "x" ? "gfx90a" : "gfx942"};
    const auto artifact = MakeArtifactOf(compiled);
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
    CallContext context;
    context.principal.uid = uid;
    context.job = job;
    ArtifactRecord record = MakeRecord(*artifact);
    record.options = "BLOCK=64";
    ASSERT_TRUE(store_.index().Put(context, record, blobs).ok());
  };
  store("x", 1000, "train");
  store("y", 1000, "serve");
  store("z", 2000, "train");
  const auto count = [this](auto set, admin::v1::OwnService::Stub* own = nullptr) {
    admin::v1::ListArtifactsRequest request;
    set(request);
    grpc::ClientContext context;
    admin::v1::ListArtifactsResponse response;
    EXPECT_TRUE((own != nullptr ? own->ListArtifacts(&context, request, &response)
                                : stub_->ListArtifacts(&context, request, &response))
                    .ok());
    for (const auto& one : response.artifacts()) EXPECT_EQ(one.options(), "BLOCK=64");
    EXPECT_EQ(response.next(), "");
    return response.artifacts_size();
  };
  EXPECT_EQ(count([](auto&) {}), 3);
  EXPECT_EQ(count([](auto& request) { request.set_uid(1000); }), 2);
  EXPECT_EQ(count([](auto& request) { request.set_job("train"); }), 2);
  EXPECT_EQ(count([](auto& request) { request.set_kernel("erne"); }), 3);
  EXPECT_EQ(count([](auto& request) { request.set_kernel("matmul"); }), 0);
  EXPECT_EQ(count([](auto& request) { request.set_target("hip"); }), 3);
  EXPECT_EQ(count([](auto& request) { request.set_target("hip:gfx90a"); }), 1);
  EXPECT_EQ(count([](auto& request) { request.set_target("hip:gfx9"); }), 0);
  EXPECT_EQ(count([](auto& request) { request.set_toolchain("fake"); }), 3);
  EXPECT_EQ(count([](auto& request) { request.set_toolchain("fake==1"); }), 0);
  const auto own = admin::v1::OwnService::NewStub(Connect({2000, false}));
  EXPECT_EQ(count([](auto&) {}, own.get()), 1);
  EXPECT_EQ(count([](auto& request) { request.set_uid(2000); }, own.get()), 1);
  admin::v1::ListArtifactsRequest of_another;
  of_another.set_uid(1000);
  grpc::ClientContext asking;
  admin::v1::ListArtifactsResponse response;
  const grpc::Status refused = own->ListArtifacts(&asking, of_another, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("uid 1000 is listed to operators alone"));
}

TEST_F(AdminServiceTest, AnEntryOfAUsersOwnIsNotListedForOthers) {
  CallContext alice;
  alice.principal.uid = 1000;
  ASSERT_TRUE(own_.Put(alice, "key", {{"file", "content", std::nullopt, Digest()}}).ok());
  ArtifactRecord damaged;
  damaged.key = UserCacheKey(1000, "damaged");
  damaged.document = "whose?";
  ASSERT_TRUE(store_.index().Put(alice, damaged, {}).ok());
  const auto count = [this](uid_t uid) {
    const auto own = admin::v1::OwnService::NewStub(Connect({uid, false}));
    grpc::ClientContext context;
    admin::v1::ListArtifactsResponse response;
    EXPECT_TRUE(own->ListArtifacts(&context, {}, &response).ok());
    return response.artifacts_size();
  };
  EXPECT_EQ(count(1000), 1);
  EXPECT_EQ(count(2000), 0);
  EXPECT_EQ(searches_, 0u);
}

TEST_F(AdminServiceTest, AUserListsTheRequestsOfOwnJobsAndNoOthers) {
  FakeProvider fake;
  fake.FinishAtOnce();
  InlineExecutor at_once;
  NegativeCache negatives(clock_, std::chrono::minutes(10));
  CachingProvider caching(std::make_unique<BorrowedProvider>(fake), store_.index(), store_.blobs(),
                          negatives, clock_, at_once);
  const auto compile = [&](const std::string& source, uid_t uid, const std::string& job) {
    CallContext context;
    context.principal.uid = uid;
    context.job = job;
    ResultProbe probe;
    caching.Compile(context, MakeJob(source), probe.Done());
    ASSERT_TRUE(probe.Result().ok());
  };
  compile("x", 1000, "train");
  clock_.Advance(std::chrono::hours(1));
  const int64_t later_unix_ms = clock_.UnixMillis();
  compile("y", 1000, "serve");
  compile("z", 2000, "train");
  Store("without a request");
  const auto listed = [](auto& stub, auto set) {
    admin::v1::ListRequestsRequest request;
    set(request);
    grpc::ClientContext context;
    admin::v1::ListRequestsResponse response;
    EXPECT_TRUE(stub.ListRequests(&context, request, &response).ok());
    EXPECT_EQ(response.next(), "");
    std::set<std::string> requests;
    for (const auto& one : response.requests()) requests.insert(one.request());
    return requests;
  };
  using Requests = std::set<std::string>;
  const std::string x = WriteRequest(*MakeJob("x"));
  const std::string y = WriteRequest(*MakeJob("y"));
  const std::string z = WriteRequest(*MakeJob("z"));
  const auto own = admin::v1::OwnService::NewStub(Connect({1000, false}));
  const auto all = [](auto&) {};
  const auto of_job = [](auto& request) { request.set_job("train"); };
  const auto since = [&](auto& request) { request.set_since_unix_ms(later_unix_ms); };
  EXPECT_EQ(listed(*stub_, all), (Requests{x, y, z}));
  EXPECT_EQ(listed(*stub_, of_job), (Requests{x, z}));
  EXPECT_EQ(listed(*own, all), (Requests{x, y}));
  EXPECT_EQ(listed(*own, of_job), Requests{x});
  EXPECT_EQ(listed(*own, since), Requests{y});
  // A job's own words for a key, which all can see, show no source of another user's.
  parts_.job_keys->Note(1000, "train", MakeJob("z")->key, /*has_source=*/false);
  EXPECT_EQ(listed(*own, of_job), Requests{x});
  parts_.job_keys->Note(1000, "train", MakeJob("y")->key, /*has_source=*/false);
  EXPECT_EQ(listed(*own, of_job), (Requests{x, y}));
  EXPECT_EQ(listed(*stub_, of_job), (Requests{x, y, z}));
  parts_.job_keys->Note(1000, "another", MakeJob("z")->key, /*has_source=*/true);
  EXPECT_EQ(listed(*own, of_job), (Requests{x, y, z}));

  const auto shown = [&](const std::string& source) {
    admin::v1::GetRequestRequest request;
    request.set_key_prefix(MakeJob(source)->key.Hex());
    grpc::ClientContext context;
    admin::v1::GetRequestResponse response;
    const grpc::Status status = own->GetRequest(&context, request, &response);
    return status.ok() ? response.request() : std::to_string(status.error_code());
  };
  EXPECT_EQ(shown("x"), x);
  EXPECT_EQ(shown("z"), std::to_string(grpc::StatusCode::NOT_FOUND));
  // No look-up names the request, whose source could then be fetched.
  v1::LookupRequest look;
  look.add_keys(std::string(MakeJob("z")->key.Bytes()));
  v1::LookupResponse found;
  grpc::ClientContext look_context;
  const auto kernels = v1::KernelService::NewStub(Connect({1000, false}));
  ASSERT_TRUE(kernels->Lookup(&look_context, look, &found).ok());
  ASSERT_TRUE(found.entries(0).found());
  for (const v1::StageBlob& stage : found.entries(0).stages()) EXPECT_NE(stage.stage(), "request");

  admin::v1::ListRequestsRequest of_another;
  of_another.set_uid(2000);
  grpc::ClientContext context;
  admin::v1::ListRequestsResponse none;
  EXPECT_EQ(own->ListRequests(&context, of_another, &none).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AdminServiceTest, AJobsOwnEntriesAreListedToTheirUserAlone) {
  parts_.tuning_users = {1000, 1001};
  const std::string artifact = Store("x");
  const auto stages = MakeArtifactOf(*MakeJob("x"))->stages;
  const auto kernels = [this](uid_t uid) {
    return v1::KernelService::NewStub(Connect({uid, false}));
  };
  const auto put = [&](uid_t uid, const std::string& key, const std::string& job, bool tunings) {
    v1::PutOwnRequest request;
    request.set_job(job);
    request.set_tunings(tunings);
    v1::OwnEntry& entry = *request.add_entries();
    entry.set_key(key);
    v1::OwnFile& file = *entry.add_files();
    file.set_name("sent");
    file.set_content("content of " + key);
    v1::OwnFile& output = *entry.add_files();
    output.set_name("output");
    output.set_digest(std::string(stages.back().blob.digest().Bytes()));
    output.mutable_output()->set_key(artifact);
    output.mutable_output()->set_stage(stages.back().stage);
    v1::PutOwnResponse response;
    grpc::ClientContext context;
    const grpc::Status status = kernels(uid)->PutOwn(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  const auto listed = [](auto& stub, const std::string& job) {
    admin::v1::ListRequestsRequest request;
    request.set_job(job);
    request.set_only_own_entries(true);
    grpc::ClientContext context;
    admin::v1::ListRequestsResponse response;
    EXPECT_TRUE(stub.ListRequests(&context, request, &response).ok());
    EXPECT_TRUE(response.requests().empty());
    std::set<std::string> keys;
    for (const v1::OwnEntry& entry : response.own_entries()) {
      keys.insert(entry.key());
      EXPECT_EQ(entry.files(0).content(), "content of " + entry.key());
      EXPECT_EQ(entry.files(1).content(), "");
      EXPECT_TRUE(entry.files(1).has_output());
    }
    return keys;
  };
  using Keys = std::set<std::string>;
  const auto own = [this](uid_t uid) {
    return admin::v1::OwnService::NewStub(Connect({uid, false}));
  };
  put(1000, "a", "train", false);
  put(1000, "b", "serve", false);
  put(1001, "c", "train", false);
  put(1001, "times", "train", true);
  EXPECT_EQ(listed(*own(1000), "train"), (Keys{"a", "times"}));
  EXPECT_EQ(listed(*own(1000), ""), (Keys{"a", "b", "times"}));
  EXPECT_EQ(listed(*own(1001), "train"), (Keys{"c", "times"}));
  EXPECT_EQ(listed(*own(1002), "train"), Keys{});
  EXPECT_EQ(listed(*stub_, "train"), Keys{});  // of root, who put none

  // What a job found is its own as well: by a call, or in the hot directory.
  v1::GetOwnRequest get;
  get.set_job("train");
  get.add_keys("b");
  v1::GetOwnResponse got;
  grpc::ClientContext get_context;
  ASSERT_TRUE(kernels(1000)->GetOwn(&get_context, get, &got).ok());
  EXPECT_EQ(listed(*own(1000), "train"), (Keys{"a", "b", "times"}));
  EXPECT_TRUE(parts_.job_keys->HasAsked("train", *Digest::FromBytes(artifact)));
  const Digest id = UserCacheKey(1000, "a");
  published_.insert(id);
  v1::NoteUsesRequest told;
  told.add_keys(std::string(id.Bytes()));
  told.add_hits()->set_job("found");
  v1::NoteUsesResponse noted;
  grpc::ClientContext told_context;
  ASSERT_TRUE(kernels(1000)->NoteUses(&told_context, told, &noted).ok());
  EXPECT_EQ(listed(*own(1000), "found"), Keys{"a"});
  // Another user's word shows nothing of it.
  grpc::ClientContext another_context;
  ASSERT_TRUE(kernels(1001)->NoteUses(&another_context, told, &noted).ok());
  EXPECT_EQ(listed(*own(1001), "found"), Keys{});
  told.mutable_hits(0)->set_job("invented");
  grpc::ClientContext invented_context;
  ASSERT_TRUE(kernels(1001)->NoteUses(&invented_context, told, &noted).ok());
  EXPECT_EQ(listed(*own(1000), "invented"), Keys{});
  // To list is no use.
  const auto usages = [this] {
    std::vector<std::pair<uint64_t, int64_t>> all;
    const auto stored = store_.index().Scan({}, std::nullopt, 100);
    for (const FoundArtifact& found : *stored) {
      all.emplace_back(found.usage.hits, found.usage.last_use_unix_ms);
    }
    return all;
  };
  clock_.Advance(std::chrono::hours(1));
  const auto before = usages();
  EXPECT_EQ(listed(*own(1000), ""), (Keys{"a", "b", "times"}));
  EXPECT_EQ(usages(), before);
  // Told uses count by the system's clock, which is later: "a" alone is that young.
  admin::v1::ListRequestsRequest recent;
  recent.set_since_unix_ms(clock_.UnixMillis());
  admin::v1::ListRequestsResponse young;
  grpc::ClientContext recent_context;
  ASSERT_TRUE(own(1000)->ListRequests(&recent_context, recent, &young).ok());
  ASSERT_EQ(young.own_entries_size(), 1);
  EXPECT_EQ(young.own_entries(0).key(), "a");
}

TEST_F(AdminServiceTest, BoundsConcurrentListsOfUsers) {
  searches_ = limits::kNearestSearchesMax;
  const auto own = admin::v1::OwnService::NewStub(Connect({1000, false}));
  grpc::ClientContext context;
  admin::v1::ListArtifactsResponse response;
  const grpc::Status status = own->ListArtifacts(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("too many lists"));
  EXPECT_EQ(searches_, limits::kNearestSearchesMax);
}

TEST_F(AdminServiceTest, AUserIsChargedForAnswers) {
  parts_.unread.reset(new SharedBytes{1});
  const auto others = std::make_shared<ByteBudget>(parts_.unread)->Take(1);
  ASSERT_TRUE(others.ok());
  const auto own = admin::v1::OwnService::NewStub(Connect({1000, false}));
  grpc::ClientContext asking;
  admin::v1::GetStatsResponse stats;
  EXPECT_EQ(own->GetStats(&asking, {}, &stats).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(parts_.unread->bytes, 1u);
}

TEST_F(AdminServiceTest, AFilterThatLeavesLittleIsAnsweredInPages) {
  for (size_t i = 0; i < limits::kListScanMax + 10; ++i) Store(std::to_string(i));
  admin::v1::ListArtifactsRequest request;
  request.set_kernel("none");
  int pages = 0;
  do {
    grpc::ClientContext context;
    admin::v1::ListArtifactsResponse response;
    ASSERT_TRUE(stub_->ListArtifacts(&context, request, &response).ok());
    EXPECT_EQ(response.artifacts_size(), 0);
    request.set_after(response.next());
    ++pages;
  } while (!request.after().empty());
  EXPECT_EQ(pages, 2);
}

TEST_F(AdminServiceTest, EachUserSeesTheOwnJobsAndOperatorsAll) {
  activity_.Note(1000, "train", ActivityKind::kMemory, {2, 50});
  activity_.Note(2000, "serve", ActivityKind::kCompiled);
  grpc::ClientContext context;
  admin::v1::GetStatsResponse all;
  ASSERT_TRUE(stub_->GetStats(&context, {}, &all).ok());
  EXPECT_EQ(all.jobs_size(), 2);
  ASSERT_EQ(all.days_size(), 1);
  EXPECT_EQ(all.days(0).date(), "2024-01-01");
  EXPECT_EQ(all.days(0).done().saved_micros_by_tier().at("memory"), 50u);
  const auto own = admin::v1::OwnService::NewStub(Connect({1000, false}));
  grpc::ClientContext second;
  admin::v1::GetStatsResponse mine;
  ASSERT_TRUE(own->GetStats(&second, {}, &mine).ok());
  ASSERT_EQ(mine.jobs_size(), 1);
  EXPECT_EQ(mine.jobs(0).uid(), 1000u);
  EXPECT_EQ(mine.jobs(0).job(), "train");
  EXPECT_EQ(mine.jobs(0).memory(), 2u);
  EXPECT_EQ(mine.jobs(0).saved_micros(), 50u);
  EXPECT_EQ(mine.metrics_size(), 0);
  EXPECT_EQ(mine.days_size(), 0);
  EXPECT_EQ(mine.state(), "serving");
}

TEST_F(AdminServiceTest, OtherPrincipalsAreToldWhereToGo) {
  const auto stub = admin::v1::AdminService::NewStub(Connect({1000, false}));
  grpc::ClientContext context;
  admin::v1::DrainResponse response;
  const grpc::Status status = stub->Drain(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("admin.sock"));
  EXPECT_EQ(drains_, 0);
  grpc::ClientContext exporting, importing;
  admin::v1::ExportArtifactsResponse exported;
  EXPECT_EQ(stub->ExportArtifacts(&exporting, {}, &exported).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  admin::v1::ImportBlockResponse imported;
  EXPECT_EQ(stub->ImportBlock(&importing, {}, &imported).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext streaming;
  const auto reports = stub->Verify(&streaming, {});
  admin::v1::VerifyReport report;
  EXPECT_FALSE(reports->Read(&report));
  EXPECT_EQ(reports->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace kiln
