#include "daemon/chain/admission_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>

#include "daemon/chain/coalescing_provider.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/metric_growth.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

class FakeMemory final : public MemoryProbe {
 public:
  MemoryState Look() const override { return {available.load(), pressure.load()}; }
  std::atomic<uint64_t> available = uint64_t{1} << 40;
  std::atomic<double> pressure = 0;
};

class AdmissionProviderTest : public testing::Test {
 protected:
  struct Caller {
    CallContext context;
    ResultProbe probe;
  };

  static constexpr uint64_t kExpected = 100;

  static AdmissionLimits Limits() {
    AdmissionLimits limits;
    limits.running_max = 2;
    limits.queue = {4, size_t{1} << 30, 1.0};
    limits.free_memory_bytes_min = 1000;
    limits.compile_bytes_default = kExpected;
    limits.pressure_percent_max = 20;
    return limits;
  }
  Caller& Ask(std::string_view source, Priority priority = Priority::kWaitingRank, uid_t uid = 0,
              std::optional<seconds> patience = std::nullopt) {
    Caller& caller = callers_.emplace_back();
    caller.context.priority = priority;
    caller.context.principal.uid = uid;
    if (patience) caller.context.deadline = clock_.Now() + *patience;
    provider_.Compile(caller.context, MakeJob(source), caller.probe.Done());
    return caller;
  }
  std::vector<std::string> Started() const {
    std::vector<std::string> sources;
    for (const FakeProvider::Call& call : fake_.calls()) {
      sources.push_back(call.job->request.source.text);
    }
    return sources;
  }

  FakeClock clock_;
  FakeTimer timer_{clock_};
  FakeMemory memory_;
  FakeProvider fake_{&timer_};
  AdmissionProvider provider_{std::make_unique<BorrowedProvider>(fake_), Limits(), memory_, clock_,
                              timer_};
  std::deque<Caller> callers_;
  const MetricGrowth growth_{};
};

TEST_F(AdmissionProviderTest, LetsInAsManyAsMayRun) {
  for (const char* source : {"a", "b", "c"}) Ask(source);
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  EXPECT_EQ(provider_.Stats().running, 2u);
  EXPECT_EQ(provider_.Stats().queued, 1u);
  fake_.FinishOne();
  EXPECT_THAT(Started(), ElementsAre("a", "b", "c"));
  fake_.FinishAll();
  EXPECT_EQ(provider_.Stats().running, 0u);
  for (Caller& caller : callers_) EXPECT_EQ(caller.probe.How(), Outcome::kCompiled);
}

TEST_F(AdmissionProviderTest, ServesTheMostUrgentAndThenInTurns) {
  Ask("running 1");
  Ask("running 2");
  Ask("warm", Priority::kWarm);
  Ask("rank of 1", Priority::kWaitingRank, 1);
  Ask("another rank of 1", Priority::kWaitingRank, 1);
  Ask("rank of 2", Priority::kWaitingRank, 2);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("running 1", "running 2", "rank of 1", "rank of 2",
                                     "another rank of 1", "warm"));
}

TEST_F(AdmissionProviderTest, AFullQueueSaysWhenToComeBack) {
  for (int i = 0; i < 6; ++i) Ask(std::to_string(i));
  Caller& refused = Ask("one too many");
  EXPECT_EQ(refused.probe.Code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(RetryAfter(refused.probe.Result().status()), milliseconds(100));
  fake_.FinishOne();
  EXPECT_FALSE(Ask("now there is room").probe.HasResult());
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, TheHintFollowsHowLongCompilesTake) {
  for (int i = 0; i < 6; ++i) Ask(std::to_string(i));
  const auto before = RetryAfter(Ask("x").probe.Result().status());
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(seconds(8));
    fake_.FinishOne();
    Ask("more");
  }
  const auto after = RetryAfter(Ask("x").probe.Result().status());
  EXPECT_GT(after, before);
  EXPECT_LE(after, milliseconds(30'000));
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, ACancelledCallLeavesTheQueueAtOnce) {
  Ask("a");
  Ask("b");
  Caller& queued = Ask("c");
  queued.context.cancellation.Cancel();
  EXPECT_EQ(queued.probe.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(provider_.Stats().queued, 0u);
  EXPECT_EQ(provider_.Stats().queued_bytes, 0u);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
}

TEST_F(AdmissionProviderTest, ADeadlineStrikesInTheQueue) {
  Ask("a");
  Ask("b");
  Caller& queued = Ask("c", Priority::kWaitingRank, 0, seconds(5));
  timer_.Advance(seconds(5));
  EXPECT_EQ(queued.probe.Code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(provider_.Stats().queued, 0u);
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, AStartedCallKeepsItsCancellationAndDeadline) {
  Caller& cancelled = Ask("a");
  Caller& late = Ask("b", Priority::kWaitingRank, 0, seconds(5));
  cancelled.context.cancellation.Cancel();
  EXPECT_EQ(cancelled.probe.Code(), absl::StatusCode::kCancelled);
  timer_.Advance(seconds(5));
  EXPECT_EQ(late.probe.Code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(provider_.Stats().running, 0u);
}

TEST_F(AdmissionProviderTest, WithLittleMemoryOneRunsAtATime) {
  memory_.available = 999;
  Ask("a");
  Ask("b");
  EXPECT_THAT(Started(), ElementsAre("a"));
  fake_.FinishOne();
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  EXPECT_EQ(growth_.Of("held_back"), 1);
  memory_.available = 1000 + 2 * kExpected - 1;
  Ask("c");
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  EXPECT_EQ(growth_.Of("held_back"), 2);
  EXPECT_EQ(provider_.Stats().expected_bytes, kExpected);
  memory_.available = 1000 + 2 * kExpected;
  Ask("d");
  EXPECT_THAT(Started(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(provider_.Stats().expected_bytes, 2 * kExpected);
  fake_.FinishAll();
  EXPECT_EQ(provider_.Stats().expected_bytes, 0u);
}

TEST_F(AdmissionProviderTest, UnderPressureOneRunsAtATime) {
  memory_.pressure = 20;
  Ask("a");
  Ask("b");
  EXPECT_THAT(Started(), ElementsAre("a"));
  memory_.pressure = 19.9;
  Ask("c");
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, RetriesACompileHeldBackForMemoryAfterATime) {
  memory_.available = 0;
  Ask("a");
  Ask("b");
  for (int i = 0; i < 3; ++i) timer_.Advance(milliseconds(100));
  EXPECT_THAT(Started(), ElementsAre("a"));
  memory_.available = 10'000;
  timer_.Advance(milliseconds(100));
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  EXPECT_EQ(growth_.Of("held_back"), 1);
  timer_.Advance(seconds(1));
  EXPECT_EQ(timer_.PendingCount(), 0u);  // nobody is held back any more
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, LaterCompilesDoNotOvertakeOneHeldBackForMemory) {
  memory_.available = 0;
  Ask("a");
  Ask("b");
  Ask("c");
  fake_.FinishOne();
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b", "c"));
}

// What compiles of a kind took decides how many run beside each other.
TEST_F(AdmissionProviderTest, LearnsWhatCompilesTake) {
  const auto took = [](uint64_t bytes) {
    return [bytes](const CompileJob& job) {
      CompileResult result = CompiledFrom(job);
      result.peak_bytes = bytes;
      return result;
    };
  };
  fake_.AnswerWith(took(uint64_t{1} << 30));
  for (int i = 0; i < 10; ++i) {
    Ask("learn");
    fake_.FinishOne();
  }
  memory_.available = uint64_t{2} << 30;
  const size_t before = fake_.started();
  Ask("a");
  EXPECT_GT(provider_.Stats().expected_bytes, uint64_t{1} << 30);
  Ask("b");
  EXPECT_EQ(fake_.started(), before + 1);
  memory_.available = uint64_t{3} << 30;
  timer_.Advance(milliseconds(100));
  EXPECT_EQ(fake_.started(), before + 2);
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, ARaisedKeyMovesForward) {
  Ask("a");
  Ask("b");
  Ask("rank");
  Ask("warm", Priority::kWarm);
  Ask("background", Priority::kBackground);
  CallContext waiter;
  waiter.priority = Priority::kAutotune;
  provider_.Raise(MakeJob("background")->key, waiter);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b", "rank", "background", "warm"));
  EXPECT_EQ(fake_.raises().size(), 1u);
}

TEST_F(AdmissionProviderTest, RunningCompilesThatNobodyWaitsForMakeWayForARankOnceItHasToWait) {
  Ask("warm", Priority::kWarm);
  Ask("rank 1");
  Ask("warm, too", Priority::kWarm);
  EXPECT_THAT(fake_.raises(), testing::IsEmpty());  // there was a place for the rank
  Ask("rank 2");
  using Raised = std::pair<Digest, Priority>;
  const Raised raised{MakeJob("warm")->key, Priority::kWaitingRank};
  EXPECT_THAT(fake_.raises(), ElementsAre(raised));
  Ask("rank 3");
  EXPECT_EQ(fake_.raises().size(), 1u);  // it has made way already
  fake_.FinishAll();
}

TEST_F(AdmissionProviderTest, ACompileThatARankHasJoinedRunsAsTheRanks) {
  for (const char* source : {"a", "b"}) Ask(source);
  Ask("warm", Priority::kWarm);
  provider_.Raise(MakeJob("warm")->key, CallContext());
  fake_.FinishAll();
  EXPECT_EQ(fake_.calls().at(2).context.priority, Priority::kWaitingRank);
}

TEST_F(AdmissionProviderTest, ASharedKeyStartsWhenTheFirstOfItsPrincipalsIsNext) {
  for (const char* source : {"a", "b", "c", "d", "shared"}) Ask(source, Priority::kWaitingRank, 1);
  EXPECT_EQ(provider_.Stats().queued, 3u);
  CallContext other;
  other.principal.uid = 2;
  provider_.Raise(MakeJob("shared")->key, other);
  EXPECT_EQ(provider_.Stats().queued, 4u);
  // Once is enough.
  provider_.Raise(MakeJob("shared")->key, other);
  EXPECT_EQ(provider_.Stats().queued, 4u);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b", "c", "shared", "d"));
  EXPECT_EQ(provider_.Stats().queued, 0u);
  EXPECT_EQ(provider_.Stats().queued_bytes, 0u);
}

TEST_F(AdmissionProviderTest, ASharedKeyGivesEveryPlaceBackWhenItIsAbandoned) {
  for (const char* source : {"a", "b"}) Ask(source, Priority::kWaitingRank, 1);
  Caller& shared = Ask("shared", Priority::kWaitingRank, 1);
  CallContext other;
  other.principal.uid = 2;
  provider_.Raise(MakeJob("shared")->key, other);
  EXPECT_EQ(provider_.Stats().queued, 2u);
  shared.context.cancellation.Cancel();
  EXPECT_EQ(provider_.Stats().queued, 0u);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b"));
}

TEST_F(AdmissionProviderTest, WaiterOfAFullQueueSharesTheFirstPlaceOfItsKey) {
  for (const char* source : {"a", "b", "c", "d", "e"}) Ask(source, Priority::kWarm, 1);
  Ask("shared", Priority::kWarm, 1);
  CallContext other;
  other.principal.uid = 2;
  provider_.Raise(MakeJob("shared")->key, other);
  EXPECT_EQ(provider_.Stats().queued, 4u);
  fake_.FinishAll();
  EXPECT_THAT(Started(), ElementsAre("a", "b", "shared", "c", "d", "e"));
}

// What is promised of the queue holds for one who asks for what stands in another's backlog.
TEST_F(AdmissionProviderTest, ABacklogDelaysWhoeverSharesAKeyOfItByOneAtMost) {
  AdmissionLimits limits = Limits();
  limits.running_max = 1;
  limits.queue = {20'000, size_t{1} << 30};
  CoalescingProvider provider(
      std::make_unique<AdmissionProvider>(std::make_unique<BorrowedProvider>(fake_), limits,
                                          memory_, clock_, timer_),
      clock_, timer_);
  constexpr int kBacklog = 10'000;
  CallContext context;
  context.principal.uid = 1;
  for (int i = 0; i < kBacklog; ++i) {
    provider.Compile(context, MakeJob(std::to_string(i)), ResultProbe().Done());
  }
  context.principal.uid = 2;
  ResultProbe other;
  provider.Compile(context, MakeJob(std::to_string(kBacklog - 1)), other.Done());
  for (int i = 0; i < 3; ++i) fake_.FinishOne();
  EXPECT_TRUE(other.HasResult());
  fake_.FinishAll();
  EXPECT_EQ(fake_.started(), size_t{kBacklog});
}

TEST_F(AdmissionProviderTest, ACallThatWasCancelledBeforehandStartsNothing) {
  CallContext gone;
  gone.cancellation.Cancel();
  ResultProbe probe;
  provider_.Compile(gone, MakeJob("a"), probe.Done());
  EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fake_.started(), 0u);
}

TEST_F(AdmissionProviderTest, PassesErrorsOfTheNextProviderOn) {
  Caller& caller = Ask("a");
  fake_.FinishOne(Internal("worker lost"));
  EXPECT_EQ(caller.probe.Code(), absl::StatusCode::kInternal);
}

// Answers that come before Compile returns must make a loop and no recursion: 10,000 frames of
// Compile would not fit.
TEST(AdmissionProvider, ALongQueueOfInstantCompilesDoesNotRecurse) {
  FakeClock clock;
  FakeTimer timer(clock);
  FakeMemory memory;
  FakeProvider fake;
  AdmissionLimits limits;
  AdmissionProvider provider(std::make_unique<BorrowedProvider>(fake), limits, memory, clock,
                             timer);
  std::atomic<int> done = 0;
  constexpr int kCalls = 10'000;
  for (int i = 0; i < kCalls; ++i) {
    provider.Compile(CallContext(), MakeJob("a"),
                     [&](const absl::StatusOr<CompileResult>&) { ++done; });
  }
  fake.FinishAtOnce();
  fake.FinishOne();
  EXPECT_EQ(done, kCalls);
}

TEST(AdmissionProvider, OneUsersBacklogDelaysAnothersFirstCompileByOneJob) {
  FakeClock clock;
  FakeTimer timer(clock);
  FakeMemory memory;
  FakeProvider fake;
  AdmissionLimits limits;
  AdmissionProvider provider(std::make_unique<BorrowedProvider>(fake), limits, memory, clock,
                             timer);
  const auto ignore = [](const absl::StatusOr<CompileResult>&) {};
  for (int i = 0; i < 10'000; ++i) {
    CallContext greedy;
    greedy.principal.uid = 1;
    provider.Compile(greedy, MakeJob("greedy"), ignore);
  }
  CallContext modest;
  modest.principal.uid = 2;
  provider.Compile(modest, MakeJob("modest"), ignore);
  fake.FinishOne();
  fake.FinishOne();
  const auto calls = fake.calls();
  EXPECT_TRUE(calls[1].job->request.source.text == "modest" ||
              calls[2].job->request.source.text == "modest");
  fake.FinishAll();
}

TEST(AdmissionProvider, DescribesItself) {
  FakeClock clock;
  FakeTimer timer(clock);
  FakeMemory memory;
  EXPECT_EQ(
      AdmissionProvider(std::make_unique<FakeProvider>(), {}, memory, clock, timer).Describe(),
      "admission(fake)");
}

TEST_F(AdmissionProviderTest, QueuedBytesCountEveryTextOfARequest) {
  Ask("a");
  Ask("b");
  const size_t before = provider_.Stats().queued_bytes;
  auto job = std::make_shared<CompileJob>(*MakeJob("c"));
  job->request.specialization.parameters.push_back({std::string(10'000, 'n'),
                                                    std::string(20'000, 't'),
                                                    {},
                                                    OptionValue{std::string(30'000, 'c')}});
  job->request.options["o"] = {OptionTuple{{std::string(40'000, 'v')}}};
  Caller& third = callers_.emplace_back();
  provider_.Compile(third.context, job, third.probe.Done());
  EXPECT_GE(provider_.Stats().queued_bytes, before + 100'000);
  fake_.FinishAtOnce();
  fake_.FinishAll();
}

}  // namespace
}  // namespace kiln
