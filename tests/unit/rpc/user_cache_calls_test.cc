#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "tests/testing/artifacts.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class UserCacheCallsTest : public ServiceTest {
 protected:
  using Stub = v1::KernelService::Stub;

  static v1::OwnEntry Entry(const std::string& key, const std::string& content) {
    v1::OwnEntry entry;
    entry.set_key(key);
    v1::OwnFile& file = *entry.add_files();
    file.set_name("file");
    file.set_content(content);
    return entry;
  }
  static grpc::Status Put(Stub& stub, const std::vector<v1::OwnEntry>& entries) {
    v1::PutOwnRequest request;
    request.mutable_entries()->Assign(entries.begin(), entries.end());
    v1::PutOwnResponse response;
    grpc::ClientContext context;
    return stub.PutOwn(&context, request, &response);
  }
  static grpc::Status Get(Stub& stub, const std::vector<std::string>& keys,
                          v1::GetOwnResponse& response) {
    v1::GetOwnRequest request;
    request.mutable_keys()->Assign(keys.begin(), keys.end());
    grpc::ClientContext context;
    return stub.GetOwn(&context, request, &response);
  }
  static void PutTiming(Stub& stub, const std::string& content) {
    v1::PutOwnRequest request;
    *request.add_entries() = Entry("tuning", content);
    request.set_tunings(true);
    v1::PutOwnResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub.PutOwn(&context, request, &response).ok());
  }
  static std::string Timing(Stub& stub) {
    v1::GetOwnRequest request;
    request.add_keys("tuning");
    request.set_tunings(true);
    v1::GetOwnResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub.GetOwn(&context, request, &response).ok());
    return response.entries().empty() ? "" : response.entries(0).files(0).content();
  }
  // "key=content" of each entry that is there.
  static std::vector<std::string> Read(Stub& stub, const std::vector<std::string>& keys) {
    v1::GetOwnResponse response;
    const grpc::Status status = Get(stub, keys, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> texts;
    for (const v1::OwnEntry& entry : response.entries()) {
      EXPECT_EQ(entry.files(0).digest(), Digest::Of(entry.files(0).content()).Bytes());
      texts.push_back(entry.key() + "=" + entry.files(0).content());
    }
    return texts;
  }
  static std::string Refusal(Stub& stub, const v1::OwnEntry& entry) {
    const grpc::Status status = Put(stub, {entry});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    return status.error_message();
  }

  std::unique_ptr<Stub> alice_ = v1::KernelService::NewStub(Connect({1000, false}));
  std::unique_ptr<Stub> bob_ = v1::KernelService::NewStub(Connect({1001, false}));
};

TEST_F(UserCacheCallsTest, EntriesComeBackInTheOrderOfTheRequestWithoutThoseThatAreNot) {
  ASSERT_TRUE(Put(*alice_, {Entry("a", "1"), Entry("b", "2")}).ok());
  EXPECT_THAT(Read(*alice_, {"b", "c", "a"}), ElementsAre("b=2", "a=1"));
  EXPECT_THAT(Read(*alice_, {}), ElementsAre());
}

TEST_F(UserCacheCallsTest, AUidOfSeveralUsersHasNone) {
  ASSERT_TRUE(Put(*bob_, {Entry("a", "bob's")}).ok());
  parts_.shared_uid = 1001;
  v1::GetOwnResponse response;
  EXPECT_EQ(Get(*bob_, {"a"}, response).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const grpc::Status status = Put(*bob_, {Entry("a", "whose?")});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("uid 1001 is what the daemon's user namespace has"));
  EXPECT_TRUE(Put(*alice_, {Entry("a", "alice's")}).ok());
}

TEST_F(UserCacheCallsTest, AnotherUserHasOthersUnderTheSameKey) {
  ASSERT_TRUE(Put(*alice_, {Entry("a", "alice's")}).ok());
  EXPECT_THAT(Read(*bob_, {"a"}), ElementsAre());
  ASSERT_TRUE(Put(*bob_, {Entry("a", "bob's")}).ok());
  EXPECT_THAT(Read(*alice_, {"a"}), ElementsAre("a=alice's"));
  // Alice finds her entry on the socket of administrators, too.
  const auto admin = v1::KernelService::NewStub(Connect({1000, true}));
  EXPECT_THAT(Read(*admin, {"a"}), ElementsAre("a=alice's"));
}

TEST_F(UserCacheCallsTest, TuningsAreSharedByTheUsersWhomTheOperatorNames) {
  PutTiming(*alice_, "1.5");
  EXPECT_EQ(Timing(*bob_), "");
  EXPECT_THAT(Read(*alice_, {"tuning"}), ElementsAre("tuning=1.5"));
  parts_.tuning_users = {1000, 1001};
  PutTiming(*alice_, "2.5");
  EXPECT_EQ(Timing(*bob_), "2.5");
  const auto eve = v1::KernelService::NewStub(Connect({1002, false}));
  PutTiming(*eve, "0.1");
  EXPECT_EQ(Timing(*bob_), "2.5");
  // What is no tuning stays apart.
  EXPECT_THAT(Read(*alice_, {"tuning"}), ElementsAre("tuning=1.5"));
  EXPECT_THAT(Read(*bob_, {"tuning"}), ElementsAre());
}

TEST_F(UserCacheCallsTest, LookupAndFetchDoNotFindUserCacheEntries) {
  ASSERT_TRUE(Put(*alice_, {Entry("a", "secret")}).ok());
  v1::LookupRequest lookup;
  lookup.add_keys(std::string(UserCacheKey(1000, "a").Bytes()));
  v1::LookupResponse looked_up;
  grpc::ClientContext lookup_context;
  ASSERT_TRUE(bob_->Lookup(&lookup_context, lookup, &looked_up).ok());
  EXPECT_FALSE(looked_up.entries(0).found());
  EXPECT_EQ(looked_up.entries(0).stages_size(), 0);

  v1::FetchRequest fetch;
  fetch.set_digest(std::string(Digest::Of("secret").Bytes()));
  grpc::ClientContext fetch_context;
  EXPECT_EQ(bob_->Fetch(&fetch_context, fetch)->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(UserCacheCallsTest, AnArtifactsOutputIsNamedAndComesBackWithItsContent) {
  const MadeArtifact made = MakeArtifact("add");
  ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
  v1::OwnEntry entry;
  entry.set_key("a");
  v1::OwnFile& file = *entry.add_files();
  file.set_name("add.cubin");
  file.set_digest(std::string(made.record.stages.back().digest.Bytes()));
  file.mutable_output()->set_key(std::string(made.record.key.Bytes()));
  file.mutable_output()->set_stage("cubin");
  ASSERT_TRUE(Put(*alice_, {entry}).ok());
  v1::GetOwnResponse response;
  ASSERT_TRUE(Get(*alice_, {"a"}, response).ok());
  ASSERT_EQ(response.entries_size(), 1);
  EXPECT_EQ(response.entries(0).files(0).content(), made.blobs.back().bytes());
  EXPECT_EQ(response.entries(0).files(0).output().stage(), "cubin");

  ASSERT_TRUE(store_.index().Remove({}, made.record.key).ok());
  EXPECT_THAT(Read(*alice_, {"a"}), ElementsAre());
  EXPECT_EQ(Put(*alice_, {entry}).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(UserCacheCallsTest, NamesTheMistakeOfAnEntry) {
  EXPECT_THAT(Refusal(*alice_, Entry("", "x")), HasSubstr("entries[0]"));
  EXPECT_THAT(Refusal(*alice_, Entry(std::string(limits::kUserCacheKeyBytesMax + 1, 'k'), "x")),
              HasSubstr("257 bytes"));
  v1::OwnEntry wrong = Entry("a", "x");
  wrong.mutable_files(0)->set_digest(std::string(Digest::Of("y").Bytes()));
  EXPECT_THAT(Refusal(*alice_, wrong), HasSubstr("digest"));
  wrong.mutable_files(0)->set_digest("short");
  EXPECT_THAT(Refusal(*alice_, wrong), HasSubstr("files[0]"));
  v1::OwnEntry both = Entry("a", "x");
  both.mutable_files(0)->set_digest(std::string(Digest::Of("x").Bytes()));
  both.mutable_files(0)->mutable_output()->set_key(std::string(MadeKey("add").Bytes()));
  EXPECT_THAT(Refusal(*alice_, both), HasSubstr("without its content"));
  v1::OwnEntry bad_key = Entry("a", "");
  bad_key.mutable_files(0)->set_digest(std::string(Digest::Of("x").Bytes()));
  bad_key.mutable_files(0)->mutable_output()->set_key("short");
  EXPECT_THAT(Refusal(*alice_, bad_key), HasSubstr("files[0]"));
  EXPECT_EQ(user_quota_.Stats().entries, 0u);
}

TEST_F(UserCacheCallsTest, AsManyAsAreAllowedAtOnceAndNoMore) {
  std::vector<std::string> keys(limits::kUserCacheEntriesPerCallMax, "a");
  EXPECT_THAT(Read(*alice_, keys), ElementsAre());
  keys.push_back("a");
  v1::GetOwnResponse response;
  EXPECT_EQ(Get(*alice_, keys, response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const std::vector<v1::OwnEntry> entries(limits::kUserCacheEntriesPerCallMax + 1, Entry("a", "x"));
  EXPECT_EQ(Put(*alice_, entries).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(UserCacheCallsTest, AnswerOverTheLimitLeavesEntriesForALaterCall) {
  const std::string content(limits::kUserCacheEntryBytesMax / 2 + 1, 'x');
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(*alice_, {Entry(key, content)}).ok());
  v1::GetOwnResponse response;
  ASSERT_TRUE(Get(*alice_, {"a", "b", "c"}, response).ok());
  ASSERT_EQ(response.entries_size(), 2);
  EXPECT_EQ(response.entries(1).key(), "b");
  EXPECT_THAT(response.unanswered_keys(), ElementsAre("c"));
}

TEST_F(UserCacheCallsTest, RateLimitOfOneUserDoesNotTouchOthers) {
  const std::vector<v1::OwnEntry> entries(limits::kUserCacheEntriesPerCallMax, Entry("a", "x"));
  const auto calls =
      limits::kUserCachePutBytesAtOnce / limits::kUserCachePutEntryBytesMin / entries.size();
  for (uint64_t i = 0; i < calls; ++i) ASSERT_TRUE(Put(*alice_, entries).ok()) << i;
  const grpc::Status refused = Put(*alice_, {Entry("b", "x")});
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(refused.error_details()));
  v1::RetryHint hint;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&hint));
  EXPECT_EQ(hint.retry_after_ms(), 2u);
  EXPECT_THAT(Read(*alice_, {"b"}), ElementsAre());
  EXPECT_TRUE(Put(*bob_, entries).ok());
  clock_.Advance(std::chrono::milliseconds(hint.retry_after_ms()));
  EXPECT_TRUE(Put(*alice_, {Entry("b", "x")}).ok());
}

TEST_F(UserCacheCallsTest, UnreadableStoreIsAnErrorAndNotAMiss) {
  ASSERT_TRUE(Put(*alice_, {Entry("a", "1")}).ok());
  faults_.FailGets(Unavailable("the disk does not answer"));
  v1::GetOwnResponse response;
  EXPECT_EQ(Get(*alice_, {"a"}, response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace kiln
