#include "daemon/policy/failure_cache.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using std::chrono::seconds;

std::shared_ptr<const CompileFailure> MakeFailure(bool deterministic = true) {
  auto failure = std::make_shared<CompileFailure>();
  failure->deterministic = deterministic;
  return failure;
}

TEST(FailureCache, ForgetsAfterItsTime) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const CompileJobPtr job = MakeJob("a");
  const Digest key = job->key;
  cache.Remember(job, MakeFailure());
  clock.Advance(seconds(59));
  EXPECT_NE(cache.Find(key), nullptr);
  clock.Advance(seconds(1));
  EXPECT_EQ(cache.Find(key), nullptr);
}

TEST(FailureCache, DoesNotRememberWhatMightNotHappenAgain) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  cache.Remember(MakeJob("a"), MakeFailure(/*deterministic=*/false));
  EXPECT_EQ(cache.Find(Digest::Of("a")), nullptr);
}

TEST(FailureCache, ForgetsWhenTold) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  cache.Remember(MakeJob("a"), MakeFailure());
  cache.Forget(Digest::Of("a"));
  EXPECT_EQ(cache.Find(Digest::Of("a")), nullptr);
}

TEST(FailureCache, KnowsTheRequestThatFailed) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const CompileJobPtr job = MakeJob("a");
  cache.Remember(job, MakeFailure());
  const auto remembered = cache.FindWithRequest(job->key);
  ASSERT_TRUE(remembered.has_value());
  EXPECT_EQ(remembered->job, job);
  EXPECT_EQ(remembered->failure, cache.Find(job->key));
  clock.Advance(seconds(60));
  EXPECT_FALSE(cache.FindWithRequest(job->key).has_value());
}

TEST(FailureCache, KnowsAFailureForLongerThanItStandsForACompile) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const auto job = MakeJob("a");
  cache.Remember(job, MakeFailure());
  clock.Advance(seconds(86'400));
  cache.Remember(MakeJob("b"), MakeFailure());
  EXPECT_EQ(cache.Find(job->key), nullptr);
  EXPECT_NE(cache.FindOfAnyAge(job->key), nullptr);
  cache.Forget(job->key);
  EXPECT_EQ(cache.FindOfAnyAge(job->key), nullptr);
}

TEST(FailureCache, WhatIsKnownForLongerIsBoundedAsWell) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const auto large = [] {
    auto failure = std::make_shared<CompileFailure>();
    failure->output = std::string(limits::kKnownFailureBytesMax / 2, 'x');
    return failure;
  };
  for (const char* source : {"a", "b", "c"}) cache.Remember(MakeJob(source), large());
  EXPECT_EQ(cache.FindOfAnyAge(Digest::Of("a")), nullptr);
  EXPECT_NE(cache.FindOfAnyAge(Digest::Of("b")), nullptr);
  EXPECT_NE(cache.FindOfAnyAge(Digest::Of("c")), nullptr);
}

TEST(FailureCache, HoldsAsManyAsTheLimitSays) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const auto key = [](size_t i) { return Digest::Of(std::to_string(i)); };
  for (size_t i = 0; i <= limits::kFailuresMax; ++i)
    cache.Remember(MakeJob(std::to_string(i)), MakeFailure());
  EXPECT_EQ(cache.Find(key(0)), nullptr);
  EXPECT_NE(cache.Find(key(1)), nullptr);
  EXPECT_NE(cache.Find(key(limits::kFailuresMax)), nullptr);
}

TEST(FailureCache, HeadersCountAsTheSourceDoes) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  const auto large = [](std::string_view source) {
    return MakeJobWithHeader(source, limits::kFailureBytesMax / 2);
  };
  cache.Remember(large("a"), MakeFailure());
  cache.Remember(large("b"), MakeFailure());
  EXPECT_EQ(cache.Find(Digest::Of("a")), nullptr);
  EXPECT_NE(cache.Find(Digest::Of("b")), nullptr);
}

TEST(FailureCache, WhatIsOverIsNotKeptUntilSomebodyAsks) {
  FakeClock clock;
  FailureCache cache(clock, seconds(60));
  CompileJobPtr job = MakeJob("a");
  const std::weak_ptr<const CompileJob> kept = job;
  cache.Remember(std::exchange(job, nullptr), MakeFailure());
  EXPECT_FALSE(kept.expired());
  clock.Advance(seconds(60));
  cache.Remember(MakeJob("b"), MakeFailure());
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace kiln
