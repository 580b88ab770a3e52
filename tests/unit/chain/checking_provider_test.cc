#include "daemon/chain/checking_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "daemon/kernel/compiler_crash.h"
#include "tests/testing/fake_catalog.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeSeal final : public ToolchainSeal {
 public:
  absl::Status Check() const override {
    ++looks;
    if (unreadable) return Unavailable("too many open files");
    return broken ? FailedPrecondition("/x/ptxas is not as it was") : absl::OkStatus();
  }
  std::atomic<bool> broken = false;
  std::atomic<bool> unreadable = false;
  mutable std::atomic<int> looks = 0;
};

class CheckingProviderTest : public testing::Test {
 protected:
  CheckingProviderTest() {
    toolchain_->seal = seal_;
    ptxas_->seal = ptxas_seal_;
  }

  void Compile(ResultProbe& probe, CallContext context = {}, bool names_ptxas = false) {
    auto job = std::make_shared<CompileJob>(*MakeJob("a"));
    job->toolchain = toolchain_;
    if (names_ptxas) job->ptxas = ptxas_;
    provider_.Compile(std::move(context), job, probe.Done());
  }

  const std::shared_ptr<Toolchain> toolchain_ = MakeTriton();
  const std::shared_ptr<Toolchain> ptxas_ = MakePtxas();
  const std::shared_ptr<FakeSeal> seal_ = std::make_shared<FakeSeal>();
  const std::shared_ptr<FakeSeal> ptxas_seal_ = std::make_shared<FakeSeal>();
  FakeProvider workers_;
  std::vector<std::string> changed_;
  CheckingProvider provider_{toolchain_, std::make_unique<BorrowedProvider>(workers_),
                             [this](const Toolchain& toolchain, const absl::Status&) {
                               changed_.push_back(toolchain.name);
                             }};
};

TEST_F(CheckingProviderTest, ReturnsTheAnswerWhereTheFilesAreUnchanged) {
  ResultProbe probe;
  Compile(probe, {}, /*names_ptxas=*/true);
  EXPECT_EQ(seal_->looks, 0);  // afterwards, not before
  workers_.FinishAll();
  EXPECT_EQ(probe.How(), Outcome::kCompiled);
  EXPECT_EQ(seal_->looks, 1);
  EXPECT_EQ(ptxas_seal_->looks, 1);
  EXPECT_TRUE(changed_.empty());
}

TEST_F(CheckingProviderTest, DropsAnArtifactOfChangedFiles) {
  ResultProbe probe;
  Compile(probe);
  seal_->broken = true;
  workers_.FinishAll();
  const absl::Status status = probe.Result().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryAfter(status).has_value());
  EXPECT_THAT(std::string(Message(status)),
              AllOf(HasSubstr("triton==3.6.0"), HasSubstr("/x/ptxas"), HasSubstr("ask again")));
  EXPECT_THAT(changed_, ElementsAre("triton"));
}

TEST_F(CheckingProviderTest, DropsFailuresAndCrashesOfChangedFiles) {
  ResultProbe failure;
  ResultProbe crash;
  Compile(failure);
  Compile(crash);
  seal_->broken = true;
  workers_.FinishOne(FailedWith("it does not parse"));
  workers_.FinishOne(MarkCompilerCrash(Internal("crashed")));
  EXPECT_EQ(failure.Code(), absl::StatusCode::kUnavailable);
  // A kernel is not quarantined for it.
  EXPECT_EQ(crash.Code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsCompilerCrash(crash.Result().status()));
}

TEST_F(CheckingProviderTest, RefusesLaterCompilesOfAChangedToolchain) {
  ResultProbe first;
  Compile(first);
  seal_->broken = true;
  workers_.FinishAll();
  // Also where the files are as before: a worker may have read others meanwhile.
  seal_->broken = false;
  ResultProbe second;
  Compile(second);
  EXPECT_EQ(second.Code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(workers_.started(), 1u);
}

TEST_F(CheckingProviderTest, AcceptsALaterAnswerAfterFilesWereUnreadable) {
  ResultProbe first;
  Compile(first);
  seal_->unreadable = true;
  workers_.FinishAll();
  EXPECT_EQ(first.Code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(changed_.empty());
  EXPECT_FALSE(provider_.HasChanged());
  seal_->unreadable = false;
  ResultProbe second;
  Compile(second);
  workers_.FinishAll();
  EXPECT_EQ(second.How(), Outcome::kCompiled);
}

TEST_F(CheckingProviderTest, AChangedPtxasSpoilsOnlyWhatNamesIt) {
  ptxas_seal_->broken = true;
  ResultProbe named;
  ResultProbe own;
  Compile(named, {}, /*names_ptxas=*/true);
  Compile(own);
  workers_.FinishAll();
  EXPECT_EQ(named.Code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(own.How(), Outcome::kCompiled);
  EXPECT_THAT(changed_, ElementsAre("ptxas"));
}

TEST_F(CheckingProviderTest, CancelledCallerHearsOnlyOfItsCancellation) {
  CallContext context;
  ResultProbe probe;
  Compile(probe, context);
  seal_->broken = true;
  context.cancellation.Cancel();
  EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(seal_->looks, 0);
}

TEST_F(CheckingProviderTest, DescribesItself) { EXPECT_EQ(provider_.Describe(), "checking(fake)"); }

}  // namespace
}  // namespace kiln
