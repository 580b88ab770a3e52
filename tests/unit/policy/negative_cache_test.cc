#include "daemon/policy/negative_cache.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/metric_growth.h"

namespace kiln {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

FailurePtr MakeFailure(size_t output_bytes = 0) {
  auto failure = std::make_shared<CompileFailure>();
  failure->deterministic = true;
  failure->output = std::string(output_bytes, 'x');
  return failure;
}

class NegativeCacheTest : public testing::Test {
 protected:
  bool HasFailure(std::string_view source) {
    return cache_.FindFailure(Digest::Of(source)) != nullptr;
  }
  bool KnowsFailure(std::string_view source) {
    return cache_.FindFailureOfAnyAge(Digest::Of(source)) != nullptr;
  }
  // Remembers a request that nothing else holds.
  template <typename Remember>
  std::weak_ptr<const CompileJob> RequestAfter(const Remember& remember) {
    const CompileJobPtr job = MakeJob("a");
    remember(job);
    return job;
  }

  FakeClock clock_;
  NegativeCache cache_{clock_, minutes(10), seconds(60)};
  const CompileJobPtr job_ = MakeJob("key");
  const CompileJobPtr other_job_ = MakeJob("other");
  const Digest key_ = job_->key;
  const Digest other_ = other_job_->key;
  const MetricGrowth growth_{};
};

TEST_F(NegativeCacheTest, FailureStandsForACompileUntilItsTimeIsOver) {
  cache_.RememberFailure(job_, MakeFailure());
  clock_.Advance(seconds(59));
  EXPECT_TRUE(HasFailure("key"));
  EXPECT_FALSE(cache_.Refuse(key_).has_value());
  clock_.Advance(seconds(1));
  EXPECT_FALSE(HasFailure("key"));
}

TEST_F(NegativeCacheTest, FailureIsKnownAfterItsTime) {
  cache_.RememberFailure(job_, MakeFailure());
  clock_.Advance(seconds(86'400));
  cache_.RememberFailure(other_job_, MakeFailure());
  EXPECT_FALSE(HasFailure("key"));
  EXPECT_TRUE(KnowsFailure("key"));
  cache_.Forget(key_);
  EXPECT_FALSE(KnowsFailure("key"));
}

TEST_F(NegativeCacheTest, FindRequestReturnsTheRequestThatFailed) {
  cache_.RememberFailure(job_, MakeFailure());
  const auto remembered = cache_.FindRequest(key_);
  ASSERT_TRUE(remembered.has_value());
  EXPECT_EQ(remembered->job, job_);
  EXPECT_EQ(remembered->failure, cache_.FindFailure(key_));
  clock_.Advance(seconds(60));
  EXPECT_FALSE(cache_.FindRequest(key_).has_value());
}

TEST_F(NegativeCacheTest, FindRequestReturnsTheRequestThatCrashed) {
  cache_.RememberCrash(job_, "SIGSEGV");
  const auto remembered = cache_.FindRequest(key_);
  ASSERT_TRUE(remembered.has_value());
  EXPECT_EQ(remembered->job, job_);
  EXPECT_EQ(remembered->failure, nullptr);
  EXPECT_EQ(remembered->crash, "SIGSEGV");
  EXPECT_EQ(growth_.Of("quarantine_refusals"), 0);
}

TEST_F(NegativeCacheTest, CrashIsRefusedUntilItsTimeIsOver) {
  EXPECT_FALSE(cache_.Refuse(key_).has_value());
  cache_.RememberCrash(job_, "SIGSEGV");
  clock_.Advance(minutes(10) - seconds(1));
  const auto crash = cache_.Refuse(key_);
  ASSERT_TRUE(crash.has_value());
  EXPECT_EQ(crash->why, "SIGSEGV");
  EXPECT_EQ(crash->left, seconds(1));
  EXPECT_FALSE(KnowsFailure("key"));
  EXPECT_FALSE(cache_.Refuse(other_).has_value());
  clock_.Advance(seconds(1));
  EXPECT_FALSE(cache_.Refuse(key_).has_value());
  EXPECT_EQ(cache_.CrashCount(), 0u);
  EXPECT_EQ(growth_.Of("quarantine_refusals"), 1);
}

TEST_F(NegativeCacheTest, SecondCrashRestartsTheQuarantine) {
  cache_.RememberCrash(job_, "first");
  clock_.Advance(minutes(9));
  cache_.RememberCrash(job_, "second");
  EXPECT_EQ(cache_.CrashCount(), 1u);
  EXPECT_EQ(cache_.Refuse(key_)->left, minutes(10));
  EXPECT_EQ(cache_.Refuse(key_)->why, "second");
}

TEST_F(NegativeCacheTest, LiftingACrashLeavesOtherCrashesAndFailures) {
  cache_.RememberCrash(job_, "");
  cache_.RememberCrash(other_job_, "");
  cache_.RememberFailure(MakeJob("fails"), MakeFailure());
  EXPECT_TRUE(cache_.LiftCrash(key_));
  EXPECT_FALSE(cache_.LiftCrash(key_));
  EXPECT_FALSE(cache_.LiftCrash(Digest::Of("fails")));
  EXPECT_FALSE(cache_.Refuse(key_).has_value());
  EXPECT_TRUE(cache_.Refuse(other_).has_value());
  EXPECT_EQ(cache_.LiftAllCrashes(), 1u);
  EXPECT_EQ(cache_.LiftAllCrashes(), 0u);
  EXPECT_TRUE(HasFailure("fails"));
}

TEST_F(NegativeCacheTest, ExpiredCrashCannotBeLifted) {
  cache_.RememberCrash(job_, "");
  clock_.Advance(minutes(10));
  EXPECT_FALSE(cache_.LiftCrash(key_));
  EXPECT_EQ(cache_.LiftAllCrashes(), 0u);
}

TEST_F(NegativeCacheTest, LongReasonIsCut) {
  cache_.RememberCrash(job_, std::string(100'000, 'x'));
  EXPECT_EQ(cache_.Refuse(key_)->why.size(), limits::kQuarantineReasonBytesMax);
}

TEST_F(NegativeCacheTest, QuarantineTimeOfZeroRefusesNothing) {
  NegativeCache none(clock_, seconds(0));
  none.RememberCrash(job_, "");
  EXPECT_FALSE(none.Refuse(key_).has_value());
}

TEST_F(NegativeCacheTest, HoldsAsManyAsTheLimitSays) {
  for (size_t i = 0; i <= limits::kFailuresMax; ++i) {
    cache_.RememberFailure(MakeJob(std::to_string(i)), MakeFailure());
  }
  EXPECT_FALSE(HasFailure("0"));
  EXPECT_TRUE(HasFailure("1"));
  EXPECT_TRUE(HasFailure(std::to_string(limits::kFailuresMax)));
}

TEST_F(NegativeCacheTest, OutputOfFailuresIsBounded) {
  for (const char* source : {"a", "b", "c"}) {
    cache_.RememberFailure(MakeJob(source), MakeFailure(limits::kKnownFailureBytesMax / 2));
  }
  EXPECT_FALSE(KnowsFailure("a"));
  EXPECT_TRUE(KnowsFailure("b"));
  EXPECT_TRUE(KnowsFailure("c"));
}

TEST_F(NegativeCacheTest, RequestsAreBoundedWithTheirHeadersApartFromResults) {
  const auto large = [](std::string_view source) {
    return MakeJobWithHeader(source, limits::kFailureBytesMax / 2);
  };
  cache_.RememberFailure(large("a"), MakeFailure());
  cache_.RememberFailure(large("b"), MakeFailure());
  EXPECT_TRUE(HasFailure("a"));
  EXPECT_FALSE(cache_.FindRequest(Digest::Of("a")).has_value());
  EXPECT_TRUE(cache_.FindRequest(Digest::Of("b")).has_value());
}

TEST_F(NegativeCacheTest, RequestIsReleasedWhenItNoLongerCounts) {
  const auto fail = [this](const CompileJobPtr& job) {
    cache_.RememberFailure(job, MakeFailure());
  };
  const auto crash = [this](const CompileJobPtr& job) { cache_.RememberCrash(job, ""); };
  const auto failed = RequestAfter(fail);
  EXPECT_FALSE(failed.expired());
  clock_.Advance(seconds(60));
  cache_.RememberFailure(other_job_, MakeFailure());
  EXPECT_TRUE(failed.expired());
  const auto lifted = RequestAfter(crash);
  cache_.LiftCrash(Digest::Of("a"));
  EXPECT_TRUE(lifted.expired());
  const auto old = RequestAfter(crash);
  clock_.Advance(minutes(10));
  cache_.RememberFailure(other_job_, MakeFailure());
  EXPECT_TRUE(old.expired());
}

}  // namespace
}  // namespace kiln
