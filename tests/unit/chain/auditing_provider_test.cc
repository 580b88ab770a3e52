#include "daemon/chain/auditing_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/chain/caching_provider.h"
#include "daemon/kernel/artifact_document.h"
#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/inline_executor.h"
#include "tests/testing/result_probe.h"
#include "tests/unit/policy/small_elf.h"

namespace kiln {
namespace {

class AuditingProviderTest : public testing::Test {
 protected:
  AuditingProviderTest() { Build(1); }

  void Build(uint64_t one_in) {
    provider_ = std::make_unique<AuditingProvider>(
        std::make_unique<CachingProvider>(std::make_unique<BorrowedProvider>(fake_), store_.index(),
                                          store_.blobs(), negatives_, clock_, executor_),
        one_in,
        AuditingProvider::Parts{counters_, fake_, store_.index(), executor_,
                                [this] { return is_idle_; }, clock_, timer_});
  }
  ResultProbe Ask(std::string_view source) {
    ResultProbe probe;
    const CompileJobPtr job = MakeJob(source);
    if (auto found = provider_->Find({}, job)) {
      probe.Done()(*std::move(found));
    } else {
      provider_->Compile({}, job, probe.Done());
    }
    return probe;
  }
  // Stored, and then found, which is when it is noted down.
  void Hit(std::string_view source) {
    fake_.FinishAtOnce();
    EXPECT_EQ(Ask(source).How(), Outcome::kCompiled);
    EXPECT_EQ(Ask(source).How(), Outcome::kHit);
    fake_.HoldAll();
  }
  void PassTime() { timer_.Advance(limits::kAuditLook); }
  // One fresh compile's result, of which the final binary is `binary`.
  void Compiled(std::string_view source, const std::string& binary) {
    PassTime();
    ASSERT_EQ(fake_.held(), 1u);
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(*MakeJob(source)));
    artifact->stages.back().blob = Blob::FromBytes(binary);
    EXPECT_TRUE(fake_.FinishOne(CompileResult{Outcome::kCompiled, std::nullopt, artifact}));
  }
  bool IsStored(std::string_view source) {
    return store_.index().Get({}, MakeJob(source)->key).ok();
  }

  FakeClock clock_;
  FakeTimer timer_{clock_};
  MemoryStore store_{limits::kGiB, clock_};
  InlineExecutor executor_;
  NegativeCache negatives_{clock_, std::chrono::minutes(10)};
  FakeProvider fake_;
  bool is_idle_ = true;
  AuditCounters counters_;
  std::unique_ptr<AuditingProvider> provider_;
};

TEST_F(AuditingProviderTest, CompilesAHitAgainAndComparesTheBinaries) {
  Hit("a");
  EXPECT_EQ(fake_.held(), 0u);
  EXPECT_EQ(provider_->waiting(), 1u);
  PassTime();
  ASSERT_EQ(fake_.held(), 1u);
  EXPECT_EQ(fake_.calls().back().context.priority, Priority::kBackground);
  fake_.FinishOne();
  EXPECT_EQ(counters_.same.value(), 1u);
  EXPECT_EQ(provider_->waiting(), 0u);
  EXPECT_TRUE(IsStored("a"));
}

TEST_F(AuditingProviderTest, AWrongBinaryIsEvicted) {
  Hit("a");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(IsStored("a"));
    Compiled("a", "another binary");
  }
  EXPECT_EQ(counters_.differed.value(), 1u);
  EXPECT_FALSE(IsStored("a"));
  fake_.FinishAtOnce();
  EXPECT_EQ(Ask("a").How(), Outcome::kCompiled);
  // What has taken its place is another thing to look at.
  EXPECT_EQ(Ask("a").How(), Outcome::kHit);
  PassTime();
  EXPECT_EQ(counters_.same.value(), 1u);
}

TEST_F(AuditingProviderTest, GivesUpAnAuditWithoutAWorker) {
  Hit("a");
  PassTime();
  EXPECT_TRUE(fake_.FinishOne(Unavailable("the pool shuts down")));
  EXPECT_EQ(counters_.given_up.value(), 1u);
  EXPECT_EQ(provider_->waiting(), 0u);
  EXPECT_EQ(timer_.PendingCount(), 0u);
}

TEST_F(AuditingProviderTest, ANondeterministicCompilerIsNoWrongBinary) {
  Hit("stored and another");
  Compiled("stored and another", "another binary");
  PassTime();
  fake_.FinishOne();  // what is stored, this time
  EXPECT_EQ(counters_.nondeterministic.value(), 1u);

  Hit("each another");
  Compiled("each another", "another binary");
  Compiled("each another", "and yet another");
  EXPECT_EQ(counters_.nondeterministic.value(), 2u);
  EXPECT_EQ(counters_.differed.value(), 0u);
  EXPECT_TRUE(IsStored("each another"));
}

// ptxas stores the times of the files that its input names, and somebody has edited one.
TEST_F(AuditingProviderTest, ADifferenceForDebuggersAloneIsNoWrongBinary) {
  const auto made = [](const std::string& time) {
    return MakeSmallElf({{".debug_line", time}, {".text.k", "code", SHF_ALLOC}});
  };
  fake_.AnswerWith([&](const CompileJob& job) {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.back().blob = Blob::FromBytes(made("12:00"));
    return CompileResult{Outcome::kCompiled, std::nullopt, artifact};
  });
  Hit("a");
  Compiled("a", made("12:01"));
  EXPECT_EQ(counters_.nondeterministic.value(), 1u);
  EXPECT_EQ(provider_->waiting(), 0u);
  EXPECT_TRUE(IsStored("a"));
}

TEST_F(AuditingProviderTest, WaitsUntilNothingIsToBeDone) {
  Hit("a");
  is_idle_ = false;
  for (int i = 0; i < 5; ++i) PassTime();
  EXPECT_EQ(fake_.held(), 0u);
  is_idle_ = true;
  PassTime();
  EXPECT_EQ(fake_.held(), 1u);
  fake_.FinishAll();
}

TEST_F(AuditingProviderTest, GivesWayToWhoWaitsAndIsDoneLater) {
  Hit("a");
  PassTime();
  ASSERT_EQ(fake_.held(), 1u);
  const ResultProbe urgent = Ask("b");
  EXPECT_EQ(fake_.cancelled(), 1u);
  is_idle_ = false;
  PassTime();
  EXPECT_EQ(fake_.held(), 1u);
  EXPECT_EQ(fake_.calls().back().job->request.source.text, "b");
  fake_.FinishOne();
  EXPECT_EQ(urgent.How(), Outcome::kCompiled);
  is_idle_ = true;
  PassTime();
  fake_.FinishOne();
  EXPECT_EQ(counters_.same.value(), 1u);
}

TEST_F(AuditingProviderTest, AHitDisturbsNoAudit) {
  Hit("a");
  PassTime();
  EXPECT_EQ(Ask("a").How(), Outcome::kHit);
  EXPECT_EQ(fake_.cancelled(), 0u);
  fake_.FinishAll();
  EXPECT_EQ(counters_.same.value(), 1u);
}

TEST_F(AuditingProviderTest, AuditsEachKeyOnce) {
  Hit("a");
  PassTime();
  fake_.FinishAll();
  EXPECT_EQ(Ask("a").How(), Outcome::kHit);
  PassTime();
  EXPECT_EQ(fake_.held(), 0u);
  EXPECT_EQ(counters_.same.value(), 1u);
  EXPECT_EQ(timer_.PendingCount(), 0u);
}

TEST_F(AuditingProviderTest, AuditsOneHitInTheConfiguredNumber) {
  Build(3);
  for (const char* source : {"a", "b", "c", "d", "e", "f", "g"}) Hit(source);
  EXPECT_EQ(provider_->waiting(), 3u);  // a, d, g
}

TEST_F(AuditingProviderTest, GivesUpAnAuditWhoseCompileFails) {
  for (const absl::StatusOr<CompileResult>& answer :
       {absl::StatusOr<CompileResult>(Unavailable("draining")),
        absl::StatusOr<CompileResult>(FailedWith("does not parse"))}) {
    Hit(answer.ok() ? "a" : "b");
    PassTime();
    EXPECT_TRUE(fake_.FinishOne(answer));
  }
  EXPECT_EQ(counters_.given_up.value(), 2u);
  EXPECT_EQ(provider_->waiting(), 0u);
  EXPECT_TRUE(IsStored("a"));
}

TEST_F(AuditingProviderTest, HoldsAsManyAsTheLimitSays) {
  is_idle_ = false;
  for (size_t i = 0; i <= limits::kAuditsWaitingMax; ++i) Hit(std::to_string(i));
  EXPECT_EQ(provider_->waiting(), limits::kAuditsWaitingMax);
  EXPECT_EQ(counters_.given_up.value(), 1u);
}

TEST_F(AuditingProviderTest, HoldsAsManyBytesOfRequestsAsTheLimitSays) {
  const auto hit = [&](std::string_view source) {
    const CompileJobPtr job = MakeJobWithHeader(source, limits::kAuditBytesMax / 2);
    const auto artifact = MakeArtifactOf(*job);
    const Blob blobs[] = {artifact->stages[0].blob, artifact->stages[1].blob};
    ASSERT_TRUE(store_.Put({}, MakeRecord(*artifact), blobs).ok());
    EXPECT_TRUE(provider_->Find({}, job));
  };
  hit("a");
  hit("b");
  EXPECT_EQ(provider_->waiting(), 1u);
  EXPECT_EQ(counters_.given_up.value(), 1u);
  fake_.FinishAtOnce();
  PassTime();
  EXPECT_EQ(counters_.same.value(), 1u);
  // There is room again, once.
  hit("b");
  hit("c");
  EXPECT_EQ(provider_->waiting(), 1u);
  EXPECT_EQ(counters_.given_up.value(), 2u);
}

TEST_F(AuditingProviderTest, FailuresAreNotAudited) {
  fake_.FinishAtOnce();
  fake_.AnswerWith([](const CompileJob&) { return FailedWith("does not parse"); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Ask("a").Result().ok());
  EXPECT_EQ(provider_->waiting(), 0u);
}

TEST_F(AuditingProviderTest, DescribesItself) {
  EXPECT_EQ(provider_->Describe(), "auditing(caching(fake))");
}

}  // namespace
}  // namespace kiln
