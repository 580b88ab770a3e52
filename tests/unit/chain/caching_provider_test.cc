#include "daemon/chain/caching_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/compiler_crash.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/inline_executor.h"
#include "tests/testing/metric_growth.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An index that fails on demand.
class FaultyIndex final : public ArtifactIndex {
 public:
  explicit FaultyIndex(ArtifactIndex& index) : index_(index) {}

  absl::StatusOr<FoundArtifact> Get(const CallContext& context, const Digest& key) override {
    KILN_RETURN_IF_ERROR(get_status);
    return index_.Get(context, key);
  }
  absl::Status Put(const CallContext& context, const ArtifactRecord& record,
                   std::span<const Blob> blobs) override {
    put_contexts.push_back(context);
    KILN_RETURN_IF_ERROR(put_status);
    return index_.Put(context, record, blobs);
  }
  absl::Status Remove(const CallContext& context, const Digest& key) override {
    return index_.Remove(context, key);
  }
  absl::StatusOr<std::vector<FoundArtifact>> Scan(const CallContext& context,
                                                  const std::optional<Digest>& after,
                                                  size_t limit) override {
    return index_.Scan(context, after, limit);
  }
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext& context,
                                                     const std::optional<Digest>& after,
                                                     size_t limit) override {
    return index_.ScanUsages(context, after, limit);
  }
  absl::Status SetPinned(const CallContext& context, const Digest& key, bool pinned) override {
    return index_.SetPinned(context, key, pinned);
  }
  std::string Describe() const override { return "faulty"; }

  absl::Status get_status;
  absl::Status put_status;
  std::vector<CallContext> put_contexts;

 private:
  ArtifactIndex& index_;
};

// Blobs that fail on demand, and say which were read.
class FaultyBlobs final : public BlobStore {
 public:
  explicit FaultyBlobs(BlobStore& blobs) : blobs_(blobs) {}

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override {
    ++gets;
    KILN_RETURN_IF_ERROR(get_status);
    KILN_ASSIGN_OR_RETURN(FoundBlob found, blobs_.GetBlob(context, digest));
    found.tier = tier;
    return found;
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return blobs_.FindMissing(context, digests);
  }

  absl::Status get_status;
  Tier tier = Tier::kMemory;
  int gets = 0;

 private:
  BlobStore& blobs_;
};

class CachingProviderTest : public testing::Test {
 protected:
  CachingProviderTest() { fake_.FinishAtOnce(); }

  absl::StatusOr<CompileResult> Ask(const CompileJobPtr& job) {
    ResultProbe probe;
    provider_.Compile(CallContext(), job, probe.Done());
    return probe.Result();
  }
  // Asks for the sake of what stays behind.
  void Prepare(const CompileJobPtr& job) { EXPECT_TRUE(Ask(job).ok()); }
  Outcome HowAnswered(const CompileJobPtr& job) { return Ask(job).value().outcome; }
  static std::vector<std::string> StagesOf(const absl::StatusOr<CompileResult>& result) {
    std::vector<std::string> stages;
    for (const StageBlob& stage : result->artifact()->stages) stages.push_back(stage.stage);
    return stages;
  }
  void FailWith(CompileResult failure) {
    fake_.AnswerWith([failure = std::move(failure)](const CompileJob&) { return failure; });
  }

  FakeClock clock_;
  MemoryStore store_{uint64_t{1} << 30, clock_};
  FaultyIndex index_{store_.index()};
  FaultyBlobs blobs_{store_.blobs()};
  InlineExecutor executor_;
  NegativeCache negatives_{clock_, minutes(10), seconds(60)};
  FakeProvider fake_;
  CachingProvider provider_{
      std::make_unique<BorrowedProvider>(fake_), index_, blobs_, negatives_, clock_, executor_};
};

TEST_F(CachingProviderTest, SecondCompileOfAKeyIsAHit) {
  const CompileJobPtr job = MakeJob("a");
  const absl::StatusOr<CompileResult> compiled = Ask(job);
  EXPECT_EQ(compiled->outcome, Outcome::kCompiled);
  EXPECT_EQ(compiled->tier, std::nullopt);
  const absl::StatusOr<CompileResult> hit = Ask(job);
  EXPECT_EQ(hit->outcome, Outcome::kHit);
  EXPECT_EQ(hit->tier, Tier::kMemory);
  EXPECT_EQ(hit->artifact()->key, job->key);
  EXPECT_EQ(hit->artifact()->metadata.name, "kernel");
  EXPECT_EQ(hit->artifact()->provenance.toolchain, "fake==1.0");
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CachingProviderTest, TheDescriptionIsStoredWithTheArtifact) {
  CachingProvider describing{
      std::make_unique<BorrowedProvider>(fake_),
      index_,
      blobs_,
      negatives_,
      clock_,
      executor_,
      [](const Artifact& artifact) {
        artifact.description.Set(std::make_unique<const std::string>("described"));
      }};
  ResultProbe probe;
  describing.Compile(CallContext(), MakeJob("a"), probe.Done());
  ASSERT_TRUE(probe.Result().ok());
  const auto hit = describing.Find(CallContext(), MakeJob("a"));
  EXPECT_EQ(*(*hit)->artifact()->description.Get(), "described");
}

TEST_F(CachingProviderTest, FindAnswersWhatNeedsNoCompile) {
  const auto find = [this](std::string_view source, CachePolicy policy) {
    return provider_.Find(CallContext(), MakeJob(source, policy));
  };
  EXPECT_FALSE(find("a", CachePolicy::kUse));
  EXPECT_EQ(find("a", CachePolicy::kOnlyIfCached)->status().code(), absl::StatusCode::kNotFound);
  Prepare(MakeJob("a"));
  EXPECT_EQ((*find("a", CachePolicy::kUse))->outcome, Outcome::kHit);
  EXPECT_EQ((*find("a", CachePolicy::kOnlyIfCached))->outcome, Outcome::kHit);
  EXPECT_FALSE(find("a", CachePolicy::kRefresh));
  FailWith(FailedWith("no"));
  Prepare(MakeJob("b"));
  EXPECT_EQ((*find("b", CachePolicy::kUse))->failure()->message, "no");
  EXPECT_EQ(fake_.started(), 2u);
}

TEST_F(CachingProviderTest, AHitLoadsTheWantedStagesAndTheFinalBinary) {
  EXPECT_THAT(StagesOf(Ask(MakeJob("a"))), ElementsAre("ptx", "cubin"));
  EXPECT_THAT(StagesOf(Ask(MakeJob("a"))), ElementsAre("cubin"));
  EXPECT_EQ(blobs_.gets, 1);
  EXPECT_THAT(StagesOf(Ask(MakeJob("a", CachePolicy::kUse, {"ptx"}))), ElementsAre("ptx", "cubin"));
}

TEST_F(CachingProviderTest, AHitNamesTheSlowestTierThatItNeeded) {
  Prepare(MakeJob("a"));
  blobs_.tier = Tier::kDisk;
  EXPECT_EQ(Ask(MakeJob("a"))->tier, Tier::kDisk);
}

TEST_F(CachingProviderTest, AWantedStageThatWasNotKeptIsAMiss) {
  Prepare(MakeJob("a"));
  EXPECT_EQ(HowAnswered(MakeJob("a", CachePolicy::kUse, {"llir"})), Outcome::kCompiled);
}

TEST_F(CachingProviderTest, RefreshCompilesAgainAndStoresOverIt) {
  Prepare(MakeJob("a"));
  fake_.AnswerWith([](const CompileJob& job) {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->metadata.name = "renewed";
    return CompileResult{Outcome::kCompiled, std::nullopt, artifact};
  });
  EXPECT_EQ(HowAnswered(MakeJob("a", CachePolicy::kRefresh)), Outcome::kCompiled);
  EXPECT_EQ(Ask(MakeJob("a"))->artifact()->metadata.name, "renewed");
  EXPECT_EQ(fake_.started(), 2u);
}

TEST_F(CachingProviderTest, OnlyIfCachedNeverCompiles) {
  const CompileJobPtr job = MakeJob("a", CachePolicy::kOnlyIfCached);
  EXPECT_EQ(Ask(job).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fake_.started(), 0u);
  Prepare(MakeJob("a"));
  EXPECT_EQ(HowAnswered(job), Outcome::kHit);
}

TEST_F(CachingProviderTest, OnlyIfCachedReportsAStoreFailureInsteadOfNotFound) {
  index_.get_status = Unavailable("disk asleep");
  EXPECT_EQ(Ask(MakeJob("a", CachePolicy::kOnlyIfCached)).status().code(),
            absl::StatusCode::kUnavailable);
  index_.get_status = DataLoss("bad record");
  EXPECT_EQ(Ask(MakeJob("a", CachePolicy::kOnlyIfCached)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CachingProviderTest, AStoreThatCannotLookIsAMiss) {
  Prepare(MakeJob("a"));
  index_.get_status = Internal("disk on fire");
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
}

TEST_F(CachingProviderTest, AFailureToLookCountsOnceForARequest) {
  const MetricGrowth growth{};
  index_.get_status = Internal("disk on fire");
  EXPECT_FALSE(provider_.Find(CallContext(), MakeJob("a")).has_value());
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
  EXPECT_EQ(growth.Of("store_lookup_failures"), 1);
}

TEST_F(CachingProviderTest, ADamagedOrMissingBlobIsAMissAndIsCompiledAgain) {
  Prepare(MakeJob("a"));
  for (const absl::Status& status : {DataLoss("flipped bit"), NotFound("evicted")}) {
    blobs_.get_status = status;
    EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
  }
}

TEST_F(CachingProviderTest, ADocumentThatCannotBeReadIsAMiss) {
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  ArtifactRecord record = MakeRecord(*artifact);
  std::vector<Blob> blobs;
  for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
  for (const char* document : {"{", R"({"format": 2})"}) {
    record.document = document;
    ASSERT_TRUE(store_.index().Put(CallContext(), record, blobs).ok());
    EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
    EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kHit);
  }
}

TEST_F(CachingProviderTest, AStoreThatTakesNothingFailsNoCompile) {
  index_.put_status = ResourceExhausted("disk full");
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
  index_.put_status = absl::OkStatus();
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kHit);
}

TEST_F(CachingProviderTest, ADeterministicFailureIsRememberedForAWhile) {
  FailWith(FailedWith("parse error"));
  EXPECT_EQ(Ask(MakeJob("a"))->outcome, Outcome::kCompiled);
  const absl::StatusOr<CompileResult> again = Ask(MakeJob("a"));
  EXPECT_EQ(again->outcome, Outcome::kHit);
  EXPECT_EQ(again->failure()->message, "parse error");
  EXPECT_EQ(fake_.started(), 1u);
  clock_.Advance(seconds(60));
  EXPECT_EQ(Ask(MakeJob("a"))->outcome, Outcome::kCompiled);
  EXPECT_EQ(fake_.started(), 2u);
}

TEST_F(CachingProviderTest, OnlyIfCachedReturnsAnOldFailure) {
  FailWith(FailedWith("ptxas: no such option"));
  Prepare(MakeJob("a"));
  clock_.Advance(std::chrono::hours(1000));
  const absl::StatusOr<CompileResult> told = Ask(MakeJob("a", CachePolicy::kOnlyIfCached));
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->outcome, Outcome::kHit);
  EXPECT_EQ(told->failure()->message, "ptxas: no such option");
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CachingProviderTest, StoredArtifactWinsOverAnOldFailure) {
  FailWith(FailedWith("ptxas: no such option"));
  Prepare(MakeJob("a"));
  clock_.Advance(seconds(60));
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  std::vector<Blob> blobs;
  for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
  ASSERT_TRUE(store_.index().Put(CallContext(), MakeRecord(*artifact), blobs).ok());
  EXPECT_NE(Ask(MakeJob("a", CachePolicy::kOnlyIfCached))->artifact(), nullptr);
}

TEST_F(CachingProviderTest, ForgetsAFailureOnceTheSourceCompiles) {
  FailWith(FailedWith("ptxas: no such option"));
  Prepare(MakeJob("a"));
  fake_.AnswerWith(CompiledFrom);
  Prepare(MakeJob("a", CachePolicy::kRefresh));
  index_.get_status = NotFound("evicted");
  EXPECT_EQ(Ask(MakeJob("a", CachePolicy::kOnlyIfCached)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CachingProviderTest, RefusesAKeyThatCrashedItsCompiler) {
  FailWith(FailedWith("worker crashed", /*deterministic=*/false));
  Prepare(MakeJob("a"));
  EXPECT_EQ(Ask(MakeJob("a")).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CachingProviderTest, AnInfrastructureFailureIsNotRemembered) {
  fake_.AnswerWith([](const CompileJob&) { return Unavailable("draining"); });
  EXPECT_EQ(Ask(MakeJob("a")).status().code(), absl::StatusCode::kUnavailable);
  fake_.AnswerWith(CompiledFrom);
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kCompiled);
}

TEST_F(CachingProviderTest, RefreshForgetsAFailure) {
  FailWith(FailedWith("parse error"));
  Prepare(MakeJob("a"));
  fake_.AnswerWith(CompiledFrom);
  Prepare(MakeJob("a", CachePolicy::kRefresh));
  EXPECT_NE(Ask(MakeJob("a"))->artifact(), nullptr);
}

TEST_F(CachingProviderTest, StoresAnArtifactWhoseCallersHaveLeft) {
  FakeProvider held;
  held.IgnoreCancellation();
  CachingProvider provider(std::make_unique<BorrowedProvider>(held), index_, blobs_, negatives_,
                           clock_, executor_);
  CallContext context;
  ResultProbe probe;
  provider.Compile(context, MakeJob("a"), probe.Done());
  context.cancellation.Cancel();
  held.FinishAll();
  ASSERT_EQ(index_.put_contexts.size(), 1u);
  EXPECT_FALSE(index_.put_contexts[0].cancellation.IsCancelled());
}

TEST_F(CachingProviderTest, AnArtifactOfAnotherKeyIsNeverStored) {
  fake_.AnswerWith([](const CompileJob&) { return CompiledFrom(*MakeJob("something else")); });
  const absl::StatusOr<CompileResult> result = Ask(MakeJob("a"));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(index_.put_contexts.empty());
}

class CrashingSourceTest : public CachingProviderTest {
 protected:
  absl::StatusOr<CompileResult> Ask(std::string_view source = "a") {
    return CachingProviderTest::Ask(MakeJob(source));
  }
  void AnswerWith(const absl::StatusOr<CompileResult>& answer) {
    fake_.AnswerWith([answer](const CompileJob&) { return answer; });
  }
};

TEST_F(CrashingSourceTest, IsNotCompiledAgainUntilItsTimeIsOver) {
  AnswerWith(MarkCompilerCrash(Internal("the compiler crashed (SIGSEGV)")));
  EXPECT_TRUE(absl::IsInternal(Ask().status()));
  const absl::Status refusal = Ask().status();
  EXPECT_EQ(fake_.started(), 1u);
  EXPECT_TRUE(absl::IsInternal(refusal));
  EXPECT_EQ(RetryAfter(refusal), minutes(10));
  EXPECT_THAT(std::string(Message(refusal)), HasSubstr("SIGSEGV"));
  EXPECT_THAT(std::string(Message(refusal)), HasSubstr("kiln evict " + MakeJob("a")->key.Hex()));

  EXPECT_FALSE(Ask("another").ok());
  EXPECT_EQ(fake_.started(), 2u);

  fake_.AnswerWith(CompiledFrom);
  clock_.Advance(minutes(10));
  EXPECT_TRUE(Ask().ok());
}

TEST_F(CrashingSourceTest, IsRefusedWhereARefreshIsWanted) {
  AnswerWith(MarkCompilerCrash(Internal("crashed")));
  EXPECT_FALSE(Ask().ok());
  EXPECT_FALSE(CachingProviderTest::Ask(MakeJob("a", CachePolicy::kRefresh)).ok());
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CrashingSourceTest, IsServedWhereItIsStored) {
  Prepare(MakeJob("a"));
  AnswerWith(MarkCompilerCrash(Internal("crashed")));
  EXPECT_FALSE(CachingProviderTest::Ask(MakeJob("a", CachePolicy::kRefresh)).ok());
  EXPECT_EQ(HowAnswered(MakeJob("a")), Outcome::kHit);
}

TEST_F(CrashingSourceTest, IsCompiledAgainOnceAnOperatorLiftsTheQuarantine) {
  AnswerWith(MarkCompilerCrash(Internal("crashed")));
  EXPECT_FALSE(Ask().ok());
  EXPECT_TRUE(negatives_.LiftCrash(MakeJob("a")->key));
  fake_.AnswerWith(CompiledFrom);
  EXPECT_TRUE(Ask().ok());
}

TEST_F(CrashingSourceTest, CountsAsCrashedWhereTheMachineEndedItsCompiler) {
  AnswerWith(FailedWith("ptxas died of SIGKILL", /*deterministic=*/false));
  EXPECT_TRUE(Ask().ok());
  EXPECT_THAT(std::string(Message(Ask().status())), HasSubstr("SIGKILL"));
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CrashingSourceTest, IsRecognizedWhereTheStatusIsAnnotated) {
  AnswerWith(Annotate(MarkCompilerCrash(Internal("crashed")), "pooled(triton-3.6.0)"));
  EXPECT_FALSE(Ask().ok());
  EXPECT_EQ(negatives_.CrashCount(), 1u);
}

TEST_F(CrashingSourceTest, IsNotASourceThatFailsOrAnErrorOfTheMachine) {
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      Internal("no crash"), Unavailable("no zygote"),     FailedPrecondition("no jail"),
      Cancelled("gone"),    DeadlineExceeded("too long"), FailedWith("does not parse")};
  for (const auto& answer : answers) {
    AnswerWith(answer);
    Ask().IgnoreError();
  }
  EXPECT_EQ(fake_.started(), answers.size());
  EXPECT_EQ(negatives_.CrashCount(), 0u);
}

TEST_F(CachingProviderTest, DescribesItself) { EXPECT_EQ(provider_.Describe(), "caching(fake)"); }

}  // namespace
}  // namespace kiln
