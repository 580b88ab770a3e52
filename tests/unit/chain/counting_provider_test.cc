#include "daemon/chain/counting_provider.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/metric_growth.h"

namespace kiln {
namespace {

CompileResult Answer(Outcome outcome, std::optional<Tier> tier = std::nullopt) {
  CompileResult result = CompiledFrom(*MakeJob("a"));
  result.outcome = outcome;
  result.tier = tier;
  return result;
}

// A compiler that was killed has not said anything of the source.
CompileResult Undecided() {
  auto failure = std::make_shared<CompileFailure>();
  failure->code = absl::StatusCode::kInternal;
  failure->deterministic = false;
  CompileResult result;
  result.value = std::shared_ptr<const CompileFailure>(std::move(failure));
  return result;
}

// Finds what the test says.
class FindingProvider final : public CompilationProvider {
 public:
  FoundResult Find(const CallContext&, const CompileJobPtr&) override { return found; }
  void Compile(CallContext, CompileJobPtr, CompileDone) override {}
  std::string Describe() const override { return "finding"; }

  FoundResult found;
};

TEST(CountingProvider, CountsWhatIsFoundAndNotWhatStillHasToBeCompiled) {
  FindingProvider finding;
  FakeClock clock;
  RecentAsks asks(clock);
  const MetricGrowth growth{};
  CountingProvider provider(std::make_unique<BorrowedProvider>(finding), asks);
  EXPECT_FALSE(provider.Find(CallContext(), MakeJob("a")));
  EXPECT_EQ(growth.Of("requests"), 0);
  finding.found = Answer(Outcome::kHit, Tier::kMemory);
  EXPECT_TRUE(provider.Find(CallContext(), MakeJob("a")));
  finding.found = NotFound("not cached");
  EXPECT_TRUE(provider.Find(CallContext(), MakeJob("a")));
  EXPECT_EQ(growth.Of("requests"), 2);
  EXPECT_EQ(growth.Of("hits_memory"), 1);
  EXPECT_EQ(growth.Of("not_found"), 1);
  EXPECT_EQ(growth.Of("in_flight"), 0);
  const auto question = MakeJob("a", CachePolicy::kOnlyIfCached);
  CallContext context;
  context.priority = Priority::kBackground;
  EXPECT_TRUE(provider.Find(context, question));
  EXPECT_EQ(growth.Of("requests"), 2);
  EXPECT_TRUE(provider.Find(CallContext(), question));
  EXPECT_EQ(growth.Of("requests"), 3);
}

TEST(CountingProvider, CountsEveryEndOnce) {
  FakeProvider fake;
  FakeClock clock;
  RecentAsks asks(clock);
  const MetricGrowth growth{};
  CountingProvider provider(std::make_unique<BorrowedProvider>(fake), asks);
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      Answer(Outcome::kHit, Tier::kMemory),
      Answer(Outcome::kHit, Tier::kDisk),
      Answer(Outcome::kHit, Tier::kDisk),
      Answer(Outcome::kJoined),
      Answer(Outcome::kCompiled),
      FailedWith("no"),
      NotFound("not cached"),
      ResourceExhausted("full"),
      Cancelled("gone"),
      DeadlineExceeded("late"),
      Internal("broken"),
      Undecided(),
  };
  for (const auto& answer : answers) {
    provider.Compile(CallContext(), MakeJob("a"), [](const absl::StatusOr<CompileResult>&) {});
    EXPECT_EQ(growth.Of("in_flight"), 1);
    fake.FinishOne(answer);
    EXPECT_EQ(growth.Of("in_flight"), 0);
  }
  EXPECT_EQ(growth.Of("requests"), answers.size());
  EXPECT_EQ(growth.Of("hits_memory"), 1);
  EXPECT_EQ(growth.Of("hits_disk"), 2);
  EXPECT_EQ(growth.Of("joined"), 1);
  EXPECT_EQ(growth.Of("compiled"), 1);
  EXPECT_EQ(growth.Of("failed"), 1);
  EXPECT_EQ(growth.Of("not_found"), 1);
  EXPECT_EQ(growth.Of("rejected"), 1);
  EXPECT_EQ(growth.Of("abandoned"), 2);
  EXPECT_EQ(growth.Of("errors"), 2);
}

TEST(CountingProvider, SaysOfBothKindsOfRequestThatSomebodyAsked) {
  FindingProvider finding;
  FakeClock clock;
  RecentAsks asks(clock);
  CountingProvider provider(std::make_unique<BorrowedProvider>(finding), asks);
  provider.Find(CallContext(), MakeJob("a"));
  EXPECT_FALSE(asks.JobsAsk());  // Compile says it
  provider.Compile(CallContext(), MakeJob("a"), [](const auto&) {});
  EXPECT_TRUE(asks.JobsAsk());
  clock.Advance(std::chrono::seconds(2));
  finding.found = Answer(Outcome::kHit, Tier::kMemory);
  provider.Find(CallContext(), MakeJob("a"));
  EXPECT_TRUE(asks.JobsAsk());
}

TEST(CountingProvider, DescribesItself) {
  FakeProvider fake;
  FakeClock clock;
  RecentAsks asks(clock);
  EXPECT_EQ(CountingProvider(std::make_unique<BorrowedProvider>(fake), asks).Describe(),
            "counting(fake)");
}

}  // namespace
}  // namespace kiln
