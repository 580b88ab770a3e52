#include "daemon/chain/publishing_provider.h"

#include <gtest/gtest.h>

#include "daemon/kernel/artifact_document.h"
#include "storage/hot/hot_directory.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/inline_executor.h"
#include "tests/testing/result_probe.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

class PublishingProviderTest : public testing::Test {
 protected:
  PublishingProviderTest() {
    auto opened = HotDirectory::Open(directory_.File("hot"), {}, OsFilesystem(), clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    hot_ = *std::move(opened);
    provider_ = std::make_unique<PublishingProvider>(std::make_unique<BorrowedProvider>(fake_),
                                                     *hot_, executor_);
  }

  // Asks for a job, whose answer is `outcome`.
  void Answer(const CompileJobPtr& job, Outcome outcome) {
    ResultProbe probe;
    provider_->Compile(CallContext(), job, probe.Done());
    CompileResult result = CompiledFrom(*job);
    result.outcome = outcome;
    fake_.FinishOne(result);
    const absl::StatusOr<CompileResult> answered = probe.Result();
    ASSERT_TRUE(answered.ok()) << answered.status();
    EXPECT_EQ(answered->artifact()->key, job->key);
  }

  TempDirectory directory_;
  FakeClock clock_;
  InlineExecutor executor_;
  FakeProvider fake_;
  std::unique_ptr<HotDirectory> hot_;
  std::unique_ptr<PublishingProvider> provider_;
};

TEST_F(PublishingProviderTest, AHitIsPublishedOnce) {
  const CompileJobPtr job = MakeJob("a");
  Answer(job, Outcome::kHit);
  EXPECT_EQ(hot_->Stats().published, 1u);
  EXPECT_TRUE(hot_->NoteUse(job->key));
  Answer(job, Outcome::kHit);
  EXPECT_EQ(hot_->Stats().published, 1u);
}

// The store's change publishes it; a second time would be for nothing.
TEST_F(PublishingProviderTest, WhatWasCompiledOrJoinedIsNotPublishedHere) {
  Answer(MakeJob("a"), Outcome::kCompiled);
  Answer(MakeJob("b"), Outcome::kJoined);
  EXPECT_EQ(hot_->Stats().published, 0u);
}

TEST_F(PublishingProviderTest, AHitKeepsItsFileFromBeingTheOldest) {
  const CompileJobPtr first = MakeJob("a");
  Answer(first, Outcome::kHit);
  const HotDirectoryStats one = hot_->Stats();
  // Room for two.
  auto opened = HotDirectory::Open(directory_.File("small"), {.bytes_max = 2 * one.bytes},
                                   OsFilesystem(), clock_);
  ASSERT_TRUE(opened.ok());
  hot_ = *std::move(opened);
  provider_ = std::make_unique<PublishingProvider>(std::make_unique<BorrowedProvider>(fake_), *hot_,
                                                   executor_);
  Answer(first, Outcome::kHit);
  Answer(MakeJob("b"), Outcome::kHit);
  Answer(first, Outcome::kHit);
  Answer(MakeJob("c"), Outcome::kHit);
  EXPECT_TRUE(hot_->NoteUse(first->key));
  EXPECT_FALSE(hot_->NoteUse(MakeJob("b")->key));
}

TEST_F(PublishingProviderTest, FailuresAndErrorsPassThrough) {
  ResultProbe failed;
  provider_->Compile(CallContext(), MakeJob("a"), failed.Done());
  fake_.FinishOne(FailedWith("no"));
  ASSERT_TRUE(failed.Result().ok());
  EXPECT_EQ(failed.Result()->failure()->message, "no");
  ResultProbe broken;
  provider_->Compile(CallContext(), MakeJob("b"), broken.Done());
  fake_.FinishOne(Internal("broken"));
  EXPECT_EQ(broken.Result().status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(hot_->Stats().published, 0u);
}

}  // namespace
}  // namespace kiln
