#include "daemon/policy/quarantine.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class QuarantineTest : public testing::Test {
 protected:
  FakeClock clock_;
  Quarantine quarantine_{minutes(10), clock_};
  const CompileJobPtr job_ = MakeJob("key");
  const CompileJobPtr other_job_ = MakeJob("other");
  const Digest key_ = job_->key;
  const Digest other_ = other_job_->key;
};

TEST_F(QuarantineTest, RefusesUntilItsTimeIsOver) {
  EXPECT_EQ(quarantine_.Refuse(key_), std::nullopt);
  quarantine_.Add(job_, "SIGSEGV");
  clock_.Advance(minutes(10) - seconds(1));
  const auto entry = quarantine_.Refuse(key_);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->why, "SIGSEGV");
  EXPECT_EQ(entry->left, seconds(1));
  EXPECT_FALSE(quarantine_.Refuse(other_).has_value());
  clock_.Advance(seconds(1));
  EXPECT_FALSE(quarantine_.Refuse(key_).has_value());
  EXPECT_EQ(quarantine_.size(), 0u);
  EXPECT_EQ(quarantine_.refusals(), 1u);
}

TEST_F(QuarantineTest, KnowsTheRequestThatCrashed) {
  quarantine_.Add(job_, "SIGSEGV");
  ASSERT_TRUE(quarantine_.Find(key_).has_value());
  EXPECT_EQ(quarantine_.Find(key_)->job, job_);
  EXPECT_EQ(quarantine_.refusals(), 0u);
}

// So many bytes of sources are kept; who is in quarantine stays there without.
TEST_F(QuarantineTest, LargeRequestsAreForgotten) {
  const auto large = [](char c) {
    return MakeJob(std::string(limits::kQuarantinedSourceBytesMax / 2 + 1, c));
  };
  const CompileJobPtr first = large('x');
  quarantine_.Add(first, "");
  quarantine_.Add(large('y'), "");
  ASSERT_TRUE(quarantine_.Find(first->key).has_value());
  EXPECT_EQ(quarantine_.Find(first->key)->job, nullptr);
}

TEST_F(QuarantineTest, HeadersCountAsTheSourceDoes) {
  const auto large = [](std::string_view source) {
    return MakeJobWithHeader(source, limits::kQuarantinedSourceBytesMax / 2);
  };
  quarantine_.Add(large("a"), "");
  quarantine_.Add(large("b"), "");
  EXPECT_EQ(quarantine_.Find(Digest::Of("a"))->job, nullptr);
  EXPECT_NE(quarantine_.Find(Digest::Of("b"))->job, nullptr);
}

// However it came out of quarantine.
TEST_F(QuarantineTest, RequestsGoWithTheirEntries) {
  const auto add = [this] {
    const CompileJobPtr job = MakeJob("a");
    quarantine_.Add(job, "");
    return std::weak_ptr<const CompileJob>(job);
  };
  std::weak_ptr<const CompileJob> kept = add();
  EXPECT_FALSE(kept.expired());
  quarantine_.LiftAll();
  EXPECT_TRUE(kept.expired()) << "all lifted";

  kept = add();
  quarantine_.Lift(Digest::Of("a"));
  EXPECT_TRUE(kept.expired()) << "lifted";

  kept = add();
  clock_.Advance(minutes(10));
  quarantine_.Add(other_job_, "");
  EXPECT_TRUE(kept.expired()) << "over";
}

TEST_F(QuarantineTest, AnotherCrashBeginsItAnew) {
  quarantine_.Add(job_, "first");
  clock_.Advance(minutes(9));
  quarantine_.Add(job_, "second");
  EXPECT_EQ(quarantine_.size(), 1u);
  EXPECT_EQ(quarantine_.Refuse(key_)->left, minutes(10));
  EXPECT_EQ(quarantine_.Refuse(key_)->why, "second");
}

TEST_F(QuarantineTest, CanBeLifted) {
  quarantine_.Add(job_, "");
  quarantine_.Add(other_job_, "");
  EXPECT_TRUE(quarantine_.Lift(key_));
  EXPECT_FALSE(quarantine_.Lift(key_));
  EXPECT_FALSE(quarantine_.Refuse(key_).has_value());
  EXPECT_TRUE(quarantine_.Refuse(other_).has_value());
  EXPECT_EQ(quarantine_.LiftAll(), 1u);
  EXPECT_EQ(quarantine_.LiftAll(), 0u);
}

TEST_F(QuarantineTest, WhatIsOverCannotBeLifted) {
  quarantine_.Add(job_, "");
  clock_.Advance(minutes(10));
  EXPECT_FALSE(quarantine_.Lift(key_));
}

TEST_F(QuarantineTest, HoldsAtTheLimitAndOneBeyond) {
  for (size_t i = 0; i < limits::kQuarantinedSourcesMax; ++i) {
    quarantine_.Add(MakeJob(std::to_string(i)), "");
    clock_.Advance(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(quarantine_.size(), limits::kQuarantinedSourcesMax);
  quarantine_.Add(job_, "");
  EXPECT_EQ(quarantine_.size(), limits::kQuarantinedSourcesMax);
  EXPECT_TRUE(quarantine_.Refuse(key_).has_value());
  EXPECT_FALSE(quarantine_.Refuse(Digest::Of("0")).has_value());
  EXPECT_TRUE(quarantine_.Refuse(Digest::Of("1")).has_value());
}

TEST_F(QuarantineTest, LongReasonsAreCut) {
  quarantine_.Add(job_, std::string(100'000, 'x'));
  EXPECT_EQ(quarantine_.Refuse(key_)->why.size(), limits::kQuarantineReasonBytesMax);
}

TEST_F(QuarantineTest, NoTimeIsNoQuarantine) {
  Quarantine none(seconds(0), clock_);
  none.Add(job_, "");
  EXPECT_FALSE(none.Refuse(key_).has_value());
}

}  // namespace
}  // namespace kiln
