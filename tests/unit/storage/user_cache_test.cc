#include "storage/user_cache.h"

#include <gmock/gmock.h>

#include <future>
#include <memory>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/faulty_store.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CallContext Of(uid_t uid) {
  CallContext context;
  context.principal.uid = uid;
  return context;
}

class UserCacheTest : public testing::Test {
 protected:
  static UserCacheFile File(const std::string& name, const std::string& content) {
    return {name, content, std::nullopt, Digest()};
  }
  static UserCacheFile Cubin(const std::string& name, const MadeArtifact& made) {
    const StageReference& last = made.record.stages.back();
    return {name, "", ArtifactOutput{made.record.key, last.stage}, last.digest};
  }
  // "name=content" of each file, or the error's code.
  std::vector<std::string> Read(const CallContext& context, const std::string& key) {
    const auto files = own_.Get(context, key);
    if (!files.ok()) return {absl::StatusCodeToString(files.status().code())};
    std::vector<std::string> texts;
    for (const UserCacheFile& file : *files) {
      EXPECT_EQ(file.digest, Digest::Of(file.content));
      texts.push_back(file.name + "=" + file.content);
    }
    return texts;
  }
  MadeArtifact PutArtifact(const std::string& name) {
    MadeArtifact made = MakeArtifact(name, 8000);
    EXPECT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
    return made;
  }
  // The key of the record for a user's key.
  std::shared_ptr<const ArtifactRecord> Record(uid_t uid, const std::string& key) {
    return store_.index().Get({}, UserCacheKey(uid, key))->record;
  }

  FakeClock clock_;
  UserQuota quota_{{.entries_per_user_max = 3}, clock_};
  Faults faults_;
  NotifyingStore store_{
      std::make_unique<FaultyStore>(std::make_unique<MemoryStore>(limits::kGiB, clock_), faults_),
      {&quota_}};
  UserCache own_{store_.index(), store_.blobs(), quota_, clock_};
  const CallContext alice_ = Of(1000);
  const CallContext bob_ = Of(1001);
};

TEST_F(UserCacheTest, TheRequestOfAnArtifactIsNoOutput) {
  MadeArtifact made = MakeArtifact("a");
  const Blob request = Blob::FromBytes("the source");
  made.record.stages.insert(made.record.stages.begin(),
                            {std::string(kRequestStage), request.digest(), request.size_bytes()});
  made.blobs.push_back(request);
  ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
  const ArtifactOutput output{made.record.key, std::string(kRequestStage)};
  EXPECT_EQ(own_.Put(Of(1000), "key", {{"file", "", output, request.digest()}}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(UserCacheTest, FilesComeBackInTheirOrder) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("b", "second"), File("a", ""), File("c", "3")}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("b=second", "a=", "c=3"));
}

TEST_F(UserCacheTest, OtherUsersNeitherSeeNorReplaceAnEntry) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "alice's")}).ok());
  EXPECT_THAT(Read(bob_, "key"), ElementsAre("NOT_FOUND"));
  ASSERT_TRUE(own_.Put(bob_, "key", {File("a", "bob's")}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("a=alice's"));
  CallContext root = Of(0);
  root.principal.is_admin = true;
  EXPECT_THAT(Read(root, "key"), ElementsAre("NOT_FOUND"));
}

TEST_F(UserCacheTest, ASecondPutReplacesTheFirst) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "1"), File("b", "1")}).ok());
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "2")}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("a=2"));
  EXPECT_EQ(quota_.Stats().entries, 1u);
}

TEST_F(UserCacheTest, UnchangedEntryIsNotWrittenAgain) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "1")}).ok());
  const auto before = Record(1000, "key");
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "1")}).ok());
  EXPECT_EQ(*Record(1000, "key"), *before);
}

TEST_F(UserCacheTest, BlobIsNotFoundByTheDigestOfAContent) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "a guess")}).ok());
  EXPECT_TRUE(absl::IsNotFound(store_.blobs().GetBlob({}, Digest::Of("a guess")).status()));
  const Digest first = Record(1000, "key")->stages.front().digest;
  ASSERT_TRUE(own_.Put(bob_, "key", {File("a", "a guess")}).ok());
  EXPECT_NE(Record(1001, "key")->stages.front().digest, first);
}

TEST_F(UserCacheTest, OutputOfAnArtifactIsReadFromTheArtifact) {
  const MadeArtifact made = PutArtifact("add");
  const uint64_t before = store_.Stats().stored_bytes;
  ASSERT_TRUE(own_.Put(alice_, "key", {Cubin("k.cubin", made), File("k.json", "{}")}).ok());
  EXPECT_LT(store_.Stats().stored_bytes - before, made.record.stages.back().size_bytes);
  EXPECT_THAT(Read(alice_, "key"),
              ElementsAre("k.cubin=" + std::string(made.blobs.back().bytes()), "k.json={}"));
}

TEST_F(UserCacheTest, AnEntryThatIsOnlyOutputsNeedsNoBlob) {
  const MadeArtifact made = PutArtifact("add");
  ASSERT_TRUE(own_.Put(alice_, "key", {Cubin("k.cubin", made)}).ok());
  EXPECT_TRUE(Record(1000, "key")->stages.empty());
  EXPECT_EQ(Read(alice_, "key").size(), 1u);
}

TEST_F(UserCacheTest, AnEntryIsGoneWithItsArtifact) {
  const MadeArtifact made = PutArtifact("add");
  ASSERT_TRUE(own_.Put(alice_, "key", {Cubin("k.cubin", made), File("k.json", "{}")}).ok());
  ASSERT_TRUE(store_.index().Remove({}, made.record.key).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("NOT_FOUND"));
  PutArtifact("add");  // compiled again, to the same
  EXPECT_EQ(Read(alice_, "key").size(), 2u);
}

TEST_F(UserCacheTest, EntryEndsWhenItsArtifactHasAnotherOutput) {
  const MadeArtifact made = PutArtifact("add");
  ASSERT_TRUE(own_.Put(alice_, "key", {Cubin("k.cubin", made)}).ok());
  MadeArtifact other = MakeArtifact("sub");
  other.record.key = made.record.key;
  ASSERT_TRUE(store_.index().Put({}, other.record, other.blobs).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("NOT_FOUND"));
}

TEST_F(UserCacheTest, RefusesOutputThatTheArtifactDoesNotHave) {
  const MadeArtifact made = PutArtifact("add");
  UserCacheFile missing = Cubin("k", MakeArtifact("never stored"));
  EXPECT_TRUE(absl::IsNotFound(own_.Put(alice_, "key", {missing})));
  UserCacheFile wrong_stage = Cubin("k", made);
  wrong_stage.output->stage = "hsaco";
  EXPECT_TRUE(absl::IsNotFound(own_.Put(alice_, "key", {wrong_stage})));
  UserCacheFile wrong_digest = Cubin("k", made);
  wrong_digest.digest = Digest::Of("else");
  EXPECT_TRUE(absl::IsNotFound(own_.Put(alice_, "key", {wrong_digest})));
}

TEST_F(UserCacheTest, RefusesOutputOfAUserCacheEntry) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "alice's")}).ok());
  const UserCacheFile stolen{
      "a", "", ArtifactOutput{UserCacheKey(1000, "key"), std::string(kUserCacheStage)},
      Record(1000, "key")->stages.front().digest};
  EXPECT_TRUE(absl::IsNotFound(own_.Put(bob_, "mine", {stolen})));
}

TEST_F(UserCacheTest, RefusesContentThatDoesNotMatchItsDigest) {
  UserCacheFile file = File("a", "content");
  file.digest = Digest::Of("another");
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "key", {file})));
  file.digest = Digest::Of("content");
  EXPECT_TRUE(own_.Put(alice_, "key", {file}).ok());
}

TEST_F(UserCacheTest, LimitsHoldAtTheLimitAndAboveIt) {
  const std::string longest(limits::kUserCacheKeyBytesMax, 'k');
  EXPECT_TRUE(own_.Put(alice_, longest, {File("a", "")}).ok());
  EXPECT_THAT(Read(alice_, longest), ElementsAre("a="));
  for (const std::string& key : {longest + "k", std::string()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, key, {File("a", "")})));
    EXPECT_TRUE(absl::IsInvalidArgument(own_.Get(alice_, key).status()));
  }
  const std::string name(limits::kUserCacheNameBytesMax, 'n');
  EXPECT_TRUE(own_.Put(alice_, "names", {File(name, "")}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "names", {File(name + "n", "")})));
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "names", {File("", "")})));
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "names", {File("a", ""), File("a", "")})));
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "names", {})));
  std::vector<UserCacheFile> many;
  for (size_t i = 0; i < limits::kUserCacheFilesMax; ++i)
    many.push_back(File(fmt::format("{}", i), "x"));
  EXPECT_TRUE(own_.Put(alice_, "many", many).ok());
  EXPECT_EQ(Read(alice_, "many").size(), limits::kUserCacheFilesMax);
  many.push_back(File("one more", "x"));
  EXPECT_TRUE(absl::IsInvalidArgument(own_.Put(alice_, "many", many)));
}

TEST_F(UserCacheTest, AnEntryHasASizeItMayNotExceed) {
  const std::string half(limits::kUserCacheEntryBytesMax / 2, 'x');
  EXPECT_TRUE(own_.Put(alice_, "key", {File("a", half), File("b", half)}).ok());
  const absl::Status refused =
      own_.Put(alice_, "key", {File("a", half), File("b", half), File("c", "x")});
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("16777217"));
}

TEST_F(UserCacheTest, UserWithTooManyEntriesLosesTheLeastRecentlyUsedEntry) {
  for (const char* key : {"1", "2", "3"}) {
    clock_.Advance(std::chrono::seconds(1));
    ASSERT_TRUE(own_.Put(alice_, key, {File("a", key)}).ok());
  }
  ASSERT_TRUE(own_.Put(bob_, "1", {File("a", "bob's")}).ok());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_THAT(Read(alice_, "1"), ElementsAre("a=1"));
  ASSERT_TRUE(own_.Put(alice_, "4", {File("a", "4")}).ok());
  EXPECT_THAT(Read(alice_, "2"), ElementsAre("NOT_FOUND"));
  EXPECT_THAT(Read(alice_, "1"), ElementsAre("a=1"));
  EXPECT_THAT(Read(bob_, "1"), ElementsAre("a=bob's"));
  EXPECT_EQ(store_.Stats().artifacts, 4u);
}

TEST_F(UserCacheTest, AnEntryThatIsReadElsewhereStays) {
  for (const char* key : {"1", "2", "3"}) {
    clock_.Advance(std::chrono::seconds(1));
    ASSERT_TRUE(own_.Put(alice_, key, {File("a", key)}).ok());
  }
  clock_.Advance(std::chrono::seconds(1));
  own_.NoteUse(UserCacheKey(alice_.principal.uid, "1"));
  own_.NoteUse(Digest::Of("an artifact"));
  ASSERT_TRUE(own_.Put(alice_, "4", {File("a", "4")}).ok());
  EXPECT_THAT(Read(alice_, "1"), ElementsAre("a=1"));
  EXPECT_THAT(Read(alice_, "2"), ElementsAre("NOT_FOUND"));
}

TEST_F(UserCacheTest, EntriesThatAFailedPutLeavesAreCounted) {
  for (const char* key : {"1", "2", "3"}) {
    clock_.Advance(std::chrono::seconds(1));
    ASSERT_TRUE(own_.Put(alice_, key, {File("a", key)}).ok());
  }
  faults_.FailRemoves(absl::InternalError("a bad disk"));
  EXPECT_TRUE(absl::IsInternal(own_.Put(alice_, "4", {File("a", "4")})));
  EXPECT_EQ(quota_.Stats().entries, 3u);
  faults_.FailRemoves(absl::OkStatus());
  faults_.FailPuts(absl::InternalError("a bad disk"));
  EXPECT_TRUE(absl::IsInternal(own_.Put(alice_, "3", {File("a", "another")})));
  EXPECT_EQ(quota_.Stats().entries, 3u);
  EXPECT_TRUE(absl::IsInternal(own_.Put(alice_, "4", {File("a", "4")})));
  EXPECT_EQ(quota_.Stats().entries, 2u);
  EXPECT_EQ(store_.Stats().artifacts, 2u);
}

TEST_F(UserCacheTest, ConcurrentPutsOfSeveralUsersStayNearTheLimits) {
  const UserQuotaLimits limits{.entries_per_user_max = 3, .entries_max = 7};
  UserQuota quota(limits, clock_);
  NotifyingStore store(std::make_unique<MemoryStore>(limits::kGiB, clock_), {&quota});
  UserCache own(store.index(), store.blobs(), quota, clock_);
  std::vector<std::future<void>> users;
  for (uid_t uid = 1; uid <= 4; ++uid) {
    users.push_back(std::async(std::launch::async, [&, uid] {
      for (int i = 0; i < 200; ++i) {
        const absl::Status put =
            own.Put(Of(uid), fmt::format("{}", i % 5), {File("a", fmt::format("{}", i))});
        EXPECT_TRUE(put.ok()) << put;
        // Each of the other three users may be about to put one more.
        EXPECT_LE(quota.Stats().entries, limits.entries_max + 3);
      }
    }));
  }
  for (auto& user : users) user.get();
  EXPECT_EQ(quota.Stats().entries, store.Stats().artifacts);
  ASSERT_TRUE(own.Put(Of(1), "last", {File("a", "last")}).ok());
  EXPECT_LE(store.Stats().artifacts, limits.entries_max);
}

TEST_F(UserCacheTest, EntryWithoutItsBlobIsNotFoundAndCanBePutAgain) {
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "1")}).ok());
  ArtifactRecord broken = *Record(1000, "key");
  broken.stages.front().digest = Digest::Of("a blob that is not there");
  ASSERT_TRUE(store_.index().Put({}, broken, {}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("NOT_FOUND"));
  ASSERT_TRUE(own_.Put(alice_, "key", {File("a", "1")}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("a=1"));
}

TEST_F(UserCacheTest, EntryOfAnotherKeyIsNotFound) {
  ASSERT_TRUE(own_.Put(bob_, "key", {File("a", "bob's")}).ok());
  ArtifactRecord moved = *Record(1001, "key");
  moved.key = UserCacheKey(1000, "key");
  ASSERT_TRUE(store_.index().Put({}, moved, {}).ok());
  EXPECT_THAT(Read(alice_, "key"), ElementsAre("NOT_FOUND"));
}

}  // namespace
}  // namespace kiln
