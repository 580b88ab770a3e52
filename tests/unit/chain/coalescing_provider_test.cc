#include "daemon/chain/coalescing_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>

#include "daemon/chain/caching_provider.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/inline_executor.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class CoalescingProviderTest : public testing::Test {
 protected:
  // One caller of Compile.
  struct Caller {
    CallContext context;
    ResultProbe probe;
  };

  Caller& Ask(const CompileJobPtr& job, Priority priority = Priority::kWaitingRank,
              std::optional<seconds> patience = std::nullopt) {
    Caller& caller = callers_.emplace_back();
    caller.context.priority = priority;
    if (patience) caller.context.deadline = clock_.Now() + *patience;
    provider_.Compile(caller.context, job, caller.probe.Done());
    return caller;
  }

  FakeClock clock_;
  FakeTimer timer_{clock_};
  FakeProvider fake_;
  CoalescingProvider provider_{std::make_unique<BorrowedProvider>(fake_), clock_, timer_};
  std::deque<Caller> callers_;
};

TEST_F(CoalescingProviderTest, OneCompileAnswersAllConcurrentCallers) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  Caller& third = Ask(MakeJob("a"));
  EXPECT_EQ(fake_.started(), 1u);
  fake_.FinishAll();
  EXPECT_EQ(first.probe.How(), Outcome::kCompiled);
  EXPECT_EQ(second.probe.How(), Outcome::kJoined);
  EXPECT_EQ(third.probe.How(), Outcome::kJoined);
  EXPECT_EQ(third.probe.Result()->artifact(), first.probe.Result()->artifact());
  EXPECT_EQ(provider_.FlightCount(), 0u);
}

TEST_F(CoalescingProviderTest, OtherKeysFlyAlone) {
  Ask(MakeJob("a"));
  Ask(MakeJob("b"));
  EXPECT_EQ(fake_.started(), 2u);
  EXPECT_EQ(provider_.FlightCount(), 2u);
  fake_.FinishAll();
}

TEST_F(CoalescingProviderTest, AfterTheLandingANewFlightStarts) {
  fake_.FinishAtOnce();
  Ask(MakeJob("a"));
  Ask(MakeJob("a"));
  EXPECT_EQ(fake_.started(), 2u);
}

// Between the two looks of whoever boards late, another's compile may have landed.
TEST_F(CoalescingProviderTest, CallerThatMissedBeforeALandingFindsItsArtifact) {
  MemoryStore store(uint64_t{1} << 30, clock_);
  InlineExecutor executor;
  NegativeCache negatives(clock_, seconds(60));
  CoalescingProvider provider(
      std::make_unique<CachingProvider>(std::make_unique<BorrowedProvider>(fake_), store.index(),
                                        store.blobs(), negatives, clock_, executor),
      clock_, timer_);
  const CompileJobPtr job = MakeJob("a");
  EXPECT_FALSE(provider.Find(CallContext(), job));
  ResultProbe first;
  provider.Compile(CallContext(), job, first.Done());
  fake_.FinishOne();
  EXPECT_EQ(first.How(), Outcome::kCompiled);
  ResultProbe late;
  provider.Compile(CallContext(), job, late.Done());
  EXPECT_EQ(late.How(), Outcome::kHit);
  EXPECT_EQ(fake_.started(), 1u);
  EXPECT_EQ((*provider.Find(CallContext(), job))->outcome, Outcome::kHit);
}

TEST_F(CoalescingProviderTest, AHitIsAHitForAll) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  CompileResult hit = CompiledFrom(*MakeJob("a"));
  hit.outcome = Outcome::kHit;
  hit.tier = Tier::kDisk;
  fake_.FinishOne(hit);
  EXPECT_EQ(first.probe.How(), Outcome::kHit);
  EXPECT_EQ(second.probe.How(), Outcome::kHit);
  EXPECT_EQ(second.probe.Result()->tier, Tier::kDisk);
}

TEST_F(CoalescingProviderTest, AHitWithoutAWaitersStagesMakesItAskAgain) {
  Caller& binary = Ask(MakeJob("a", CachePolicy::kUse, {"cubin"}));
  Caller& text = Ask(MakeJob("a", CachePolicy::kUse, {"ptx"}));
  auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(*MakeJob("a")));
  artifact->stages.erase(artifact->stages.begin());
  fake_.FinishOne(CompileResult{Outcome::kHit, Tier::kMemory, artifact});
  EXPECT_TRUE(binary.probe.HasResult());
  EXPECT_FALSE(text.probe.HasResult());
  ASSERT_EQ(fake_.started(), 2u);
  EXPECT_THAT(fake_.calls()[1].job->request.stages, ElementsAre("ptx"));
  fake_.FinishAll();
  EXPECT_TRUE(text.probe.Result().ok());
}

TEST_F(CoalescingProviderTest, AFailureOfTheSourceGoesToAll) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  fake_.FinishOne(FailedWith("no"));
  EXPECT_EQ(first.probe.Result()->failure()->message, "no");
  EXPECT_EQ(second.probe.Result()->failure(), first.probe.Result()->failure());
  EXPECT_EQ(second.probe.How(), Outcome::kJoined);
}

TEST_F(CoalescingProviderTest, AFailureOfTheInfrastructureGoesToAll) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  fake_.FinishOne(Internal("worker lost"));
  EXPECT_EQ(first.probe.Code(), absl::StatusCode::kInternal);
  EXPECT_EQ(second.probe.Code(), absl::StatusCode::kInternal);
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CoalescingProviderTest, AWaiterWhoLeavesDoesNotDisturbTheOthers) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  first.context.cancellation.Cancel();
  EXPECT_EQ(first.probe.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fake_.cancelled(), 0u);
  fake_.FinishAll();
  EXPECT_EQ(second.probe.How(), Outcome::kCompiled);
}

TEST_F(CoalescingProviderTest, TheWorkStopsWhenTheLastWaiterLeaves) {
  Caller& first = Ask(MakeJob("a"));
  Caller& second = Ask(MakeJob("a"));
  second.context.cancellation.Cancel();
  EXPECT_EQ(fake_.cancelled(), 0u);
  first.context.cancellation.Cancel();
  EXPECT_EQ(fake_.cancelled(), 1u);
  EXPECT_EQ(provider_.FlightCount(), 0u);
}

TEST_F(CoalescingProviderTest, AWaitersDeadlineIsItsOwn) {
  Caller& hasty = Ask(MakeJob("a"), Priority::kWaitingRank, seconds(5));
  Caller& patient = Ask(MakeJob("a"), Priority::kWaitingRank, seconds(60));
  timer_.Advance(seconds(10));
  EXPECT_EQ(hasty.probe.Code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(patient.probe.HasResult());
  EXPECT_EQ(fake_.calls()[0].context.deadline, std::nullopt);
  timer_.Advance(seconds(60));
  EXPECT_EQ(patient.probe.Code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(fake_.cancelled(), 1u);
}

TEST_F(CoalescingProviderTest, AnAnswerClearsTheAlarms) {
  fake_.FinishAtOnce();
  Ask(MakeJob("a"), Priority::kWaitingRank, seconds(5));
  EXPECT_EQ(timer_.PendingCount(), 0u);
}

TEST_F(CoalescingProviderTest, CallerWithoutTimeStartsNoCompile) {
  Caller& late = Ask(MakeJob("a"), Priority::kWaitingRank, seconds(0));
  EXPECT_EQ(late.probe.Code(), absl::StatusCode::kDeadlineExceeded);
  CallContext gone;
  gone.cancellation.Cancel();
  ResultProbe probe;
  provider_.Compile(gone, MakeJob("a"), probe.Done());
  EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fake_.started(), 0u);
}

TEST_F(CoalescingProviderTest, ANewcomerWaitsForAStoppingFlightAndThenLaunchesAnew) {
  fake_.IgnoreCancellation();
  Caller& first = Ask(MakeJob("a"));
  first.context.cancellation.Cancel();
  Caller& newcomer = Ask(MakeJob("a"));
  EXPECT_EQ(fake_.started(), 1u);
  fake_.FinishOne(Cancelled("stopped at last"));
  EXPECT_FALSE(newcomer.probe.HasResult());
  EXPECT_EQ(fake_.started(), 2u);
  fake_.FinishAll();
  EXPECT_EQ(newcomer.probe.How(), Outcome::kCompiled);
}

TEST_F(CoalescingProviderTest, ANewcomerGetsWhatAStoppingFlightYieldsAfterAll) {
  fake_.IgnoreCancellation();
  Caller& first = Ask(MakeJob("a"));
  first.context.cancellation.Cancel();
  Caller& newcomer = Ask(MakeJob("a"));
  fake_.FinishOne();
  EXPECT_TRUE(newcomer.probe.Result().ok());
  EXPECT_EQ(fake_.started(), 1u);
}

TEST_F(CoalescingProviderTest, AUseJoinsARefreshButARefreshDoesNotJoinAUse) {
  Ask(MakeJob("a"));
  Caller& refresh = Ask(MakeJob("a", CachePolicy::kRefresh));
  EXPECT_EQ(fake_.started(), 2u);
  Caller& another = Ask(MakeJob("a", CachePolicy::kRefresh));
  EXPECT_EQ(fake_.started(), 2u);
  fake_.FinishOne();
  Caller& use = Ask(MakeJob("a"));
  EXPECT_EQ(fake_.started(), 2u);
  fake_.FinishOne();
  EXPECT_EQ(refresh.probe.How(), Outcome::kCompiled);
  EXPECT_EQ(another.probe.How(), Outcome::kJoined);
  EXPECT_EQ(use.probe.How(), Outcome::kJoined);
}

TEST_F(CoalescingProviderTest, TheMostUrgentWaiterRaisesTheFlight) {
  const CompileJobPtr job = MakeJob("a");
  Ask(job, Priority::kWarm);
  EXPECT_EQ(fake_.calls()[0].context.priority, Priority::kWarm);
  Ask(job, Priority::kBackground);
  EXPECT_THAT(fake_.raises(), IsEmpty());
  Ask(job, Priority::kWaitingRank);
  Ask(job, Priority::kAutotune);
  EXPECT_THAT(fake_.raises(), ElementsAre(Pair(job->key, Priority::kWaitingRank)));
  fake_.FinishAll();
}

// Stands for a layer that does not know the key until late in Compile: what is raised before is
// lost.
class SlowToStart final : public CompilationProvider {
 public:
  explicit SlowToStart(FakeProvider& next) : next_(next) {}
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override {
    if (before_start) std::exchange(before_start, nullptr)();
    has_started_ = true;
    next_.Compile(std::move(context), std::move(job), std::move(done));
  }
  void Raise(const Digest& key, const CallContext& waiter) override {
    if (has_started_) next_.Raise(key, waiter);
  }
  std::string Describe() const override { return "slow"; }

  std::function<void()> before_start;

 private:
  FakeProvider& next_;
  bool has_started_ = false;
};

TEST_F(CoalescingProviderTest, ARaiseThatComesDuringTheLaunchIsNotLost) {
  auto slow = std::make_unique<SlowToStart>(fake_);
  SlowToStart* const next = slow.get();
  CoalescingProvider provider(std::move(slow), clock_, timer_);
  const CompileJobPtr job = MakeJob("a");
  CallContext warm;
  warm.priority = Priority::kWarm;
  ResultProbe first;
  ResultProbe second;
  next->before_start = [&] { provider.Compile(CallContext(), job, second.Done()); };
  provider.Compile(warm, job, first.Done());
  EXPECT_THAT(fake_.raises(), ElementsAre(Pair(job->key, Priority::kWaitingRank)));
  fake_.FinishAll();
}

TEST_F(CoalescingProviderTest, ReportsAWaiterOfAnotherPrincipal) {
  const CompileJobPtr job = MakeJob("a");
  CallContext context;
  ResultProbe first;
  ResultProbe same;
  ResultProbe other;
  provider_.Compile(context, job, first.Done());
  provider_.Compile(context, job, same.Done());
  EXPECT_THAT(fake_.raises(), IsEmpty());
  context.principal.uid = 1;
  provider_.Compile(context, job, other.Done());
  EXPECT_THAT(fake_.raises(), ElementsAre(Pair(job->key, Priority::kWaitingRank)));
  fake_.FinishAll();
}

// Its own line may be longer than that of the one that is more urgent already.
TEST_F(CoalescingProviderTest, ReportsTheMostUrgentWaiterOfEachPrincipal) {
  const CompileJobPtr job = MakeJob("a");
  std::deque<ResultProbe> probes;
  const auto ask = [&](uid_t uid, Priority priority) {
    CallContext context;
    context.principal.uid = uid;
    context.priority = priority;
    provider_.Compile(context, job, probes.emplace_back().Done());
  };
  ask(1, Priority::kWarm);
  ask(2, Priority::kWaitingRank);
  ask(1, Priority::kWaitingRank);
  ask(1, Priority::kWaitingRank);
  EXPECT_EQ(fake_.raises().size(), 2u);
  fake_.FinishAll();
}

TEST_F(CoalescingProviderTest, AWaiterMayAskAgainFromItsAnswer) {
  ResultProbe again;
  provider_.Compile(CallContext(), MakeJob("a"), [&](const absl::StatusOr<CompileResult>&) {
    provider_.Compile(CallContext(), MakeJob("a"), again.Done());
  });
  fake_.FinishAll();
  EXPECT_EQ(again.How(), Outcome::kCompiled);
}

TEST_F(CoalescingProviderTest, DescribesItself) {
  EXPECT_EQ(provider_.Describe(), "coalescing(fake)");
}

}  // namespace
}  // namespace kiln
