#include "daemon/chain/counting_provider.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_provider.h"

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

TEST(CountingProvider, CountsEveryEndOnce) {
  FakeProvider fake;
  CountingProvider provider(std::make_unique<BorrowedProvider>(fake));
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      Answer(Outcome::kHit, Tier::kMemory),
      Answer(Outcome::kHit, Tier::kDisk),
      Answer(Outcome::kHit, Tier::kDisk),
      Answer(Outcome::kHit, Tier::kRemote),
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
    EXPECT_EQ(provider.Counts().InFlight(), 1u);
    fake.FinishOne(answer);
    EXPECT_EQ(provider.Counts().InFlight(), 0u);
  }
  const CompileCounts counts = provider.Counts();
  EXPECT_EQ(counts.requests, answers.size());
  EXPECT_EQ(counts.hits, (std::array<uint64_t, 3>{1, 2, 1}));
  EXPECT_EQ(counts.joined, 1u);
  EXPECT_EQ(counts.compiled, 1u);
  EXPECT_EQ(counts.failed, 1u);
  EXPECT_EQ(counts.not_found, 1u);
  EXPECT_EQ(counts.rejected, 1u);
  EXPECT_EQ(counts.abandoned, 2u);
  EXPECT_EQ(counts.errors, 2u);
}

TEST(CountingProvider, DescribesItself) {
  FakeProvider fake;
  EXPECT_EQ(CountingProvider(std::make_unique<BorrowedProvider>(fake)).Describe(),
            "counting(fake)");
}

}  // namespace
}  // namespace kiln
