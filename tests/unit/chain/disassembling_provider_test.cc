#include "daemon/chain/disassembling_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "daemon/chain/admission_provider.h"
#include "storage/base/limits.h"
#include "tests/conformance/compilation_provider_conformance.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/result_probe.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BreakableSeal final : public ToolchainSeal {
 public:
  absl::Status Check() const override {
    return broken ? FailedPrecondition("changed") : absl::OkStatus();
  }
  std::atomic<bool> broken = false;
};

class DisassemblingProviderTest : public testing::Test {
 protected:
  DisassemblingProviderTest() {
    auto toolchain = MakeFakeCompiler("12.8", "nvdisasm");
    toolchain->seal = seal_;
    here_ = {toolchain, std::make_shared<WorkerPool>(FakePoolOptions(directory_.File("work")))};
    next_.FinishAtOnce();
  }

  absl::StatusOr<CompileResult> Compile(std::vector<std::string> stages) {
    ResultProbe& probe = probes_.emplace_back();
    provider_.Compile({}, MakeJob("a", CachePolicy::kUse, std::move(stages)), probe.Done());
    return probe.Result();
  }
  std::unique_ptr<CompilationProvider> MakeSassProvider() {
    return std::make_unique<SassProvider>([this] { return here_; },
                                          [this](const Toolchain& toolchain, const absl::Status&) {
                                            changed_.push_back(toolchain.Name());
                                          });
  }
  // What it disassembles is `cubin` from now on.
  void AnswerWithCubin(const std::string& cubin) {
    next_.AnswerWith([cubin](const CompileJob& job) -> absl::StatusOr<CompileResult> {
      auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
      artifact->stages.back().blob = Blob::FromBytes(cubin);
      CompileResult result = CompiledFrom(job);
      result.value = std::shared_ptr<const Artifact>(artifact);
      return result;
    });
  }

  TempDirectory directory_;
  const std::shared_ptr<BreakableSeal> seal_ = std::make_shared<BreakableSeal>();
  FakeProvider next_;
  // They outlive the statuses that they gave: Abseil's counts are not ThreadSanitizer's to see.
  std::deque<ResultProbe> probes_;
  std::vector<std::string> changed_;
  DisassemblingProvider provider_{std::make_unique<BorrowedProvider>(next_),
                                  [this] { return here_; }, MakeSassProvider()};
  Disassembler here_;  // last: its threads call back into the rest
};

TEST_F(DisassemblingProviderTest, ItIsAddedToWhatTheNextGives) {
  const auto result = Compile({"cubin", "sass"});
  ASSERT_TRUE(result.ok()) << result.status();
  const StageBlob& last = result->artifact()->stages.back();
  EXPECT_EQ(last.stage, "sass");
  EXPECT_EQ(last.blob.bytes(), "sass of cubin of a");
  EXPECT_THAT(result->artifact()->provenance.assembler, HasSubstr(", fake 1.0"));
  EXPECT_THAT(next_.calls().front().job->request.stages, ElementsAre("cubin"));
}

TEST_F(DisassemblingProviderTest, WhoeverDoesNotWantItNeedsNone) {
  here_ = {};
  EXPECT_EQ(Compile({"cubin"})->artifact()->stages.size(), 2u);
}

TEST_F(DisassemblingProviderTest, WhereNoneIsHereNothingIsCompiledInVain) {
  here_ = {};
  EXPECT_TRUE(absl::IsFailedPrecondition(Compile({"sass"}).status()));
  EXPECT_EQ(next_.started(), 0u);
}

TEST_F(DisassemblingProviderTest, OneThatGoesMeanwhileIsMissed) {
  next_.HoldAll();
  ResultProbe probe;
  provider_.Compile({}, MakeJob("a", CachePolicy::kUse, {"sass"}), probe.Done());
  here_ = {};
  next_.FinishAll();
  EXPECT_EQ(probe.Code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DisassemblingProviderTest, WhatDoesNotCompileIsSaidAsEver) {
  next_.AnswerWith([](const CompileJob&) { return FailedWith("no kernel"); });
  EXPECT_EQ(Compile({"sass"})->failure()->message, "no kernel");
}

TEST_F(DisassemblingProviderTest, WhatItDoesNotKnowIsNoFaultOfTheSource) {
  AnswerWithCubin("fail");
  const absl::Status status = Compile({"sass"}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("it does not parse"));
}

TEST_F(DisassemblingProviderTest, WhatAChangedFileGivesDoesNotCount) {
  seal_->broken = true;
  for (const std::string cubin : {"cubin of a", "fail", "segfault"}) {
    AnswerWithCubin(cubin);
    const absl::Status status = Compile({"sass"}).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(RetryAfter(status).has_value());
  }
  EXPECT_THAT(changed_, ElementsAre("nvdisasm==12.8", "nvdisasm==12.8", "nvdisasm==12.8"));
  changed_.clear();
  seal_->broken = false;
  AnswerWithCubin("segfault");
  EXPECT_TRUE(absl::IsInternal(Compile({"sass"}).status()));
  EXPECT_THAT(changed_, IsEmpty());
}

class AnyMemory final : public MemoryProbe {
 public:
  MemoryState Look() const override { return {}; }
};

// Behind admission, as the daemon has it.
TEST_F(DisassemblingProviderTest, OneUsersCubinsHoldUpAnothersByOneAtMost) {
  next_.AnswerWith([](const CompileJob& job) -> absl::StatusOr<CompileResult> {
    auto artifact = std::make_shared<Artifact>(*MakeArtifactOf(job));
    artifact->stages.back().blob = Blob::FromBytes(job.request.source.text);
    CompileResult result = CompiledFrom(job);
    result.value = std::shared_ptr<const Artifact>(artifact);
    return result;
  });
  AdmissionLimits limits;
  limits.queue = {4, limits::kMiB, 1.0};
  const AnyMemory memory;
  FakeClock clock;
  FakeTimer timer(clock);
  DisassemblingProvider provider(
      std::make_unique<BorrowedProvider>(next_), [this] { return here_; },
      std::make_unique<AdmissionProvider>(MakeSassProvider(), limits, memory, clock, timer));
  std::mutex mutex;
  std::vector<uid_t> answered;
  const auto ask = [&](uid_t uid, const std::string& cubin) {
    CallContext context;
    context.principal.uid = uid;
    ResultProbe& probe = probes_.emplace_back();
    provider.Compile(context, MakeJob(cubin, CachePolicy::kUse, {"sass"}),
                     [&, uid, done = probe.Done()](absl::StatusOr<CompileResult> result) {
                       if (result.ok()) {
                         const std::lock_guard lock(mutex);
                         answered.push_back(uid);
                       }
                       done(std::move(result));
                     });
    return context.cancellation;
  };
  Cancellation endless = ask(1, "sleep");
  for (int i = 0; i < 3; ++i) ask(1, fmt::format("cubin {}", i));
  ask(2, "cubin of another");
  ask(1, "cubin too many");
  const absl::Status refused = probes_.back().Result().status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryAfter(refused).has_value());
  endless.Cancel();
  for (const ResultProbe& probe : probes_) EXPECT_NE(probe.Code(), absl::StatusCode::kInternal);
  EXPECT_THAT(answered, ElementsAre(1, 2, 1, 1));
}

class DisassemblingHarness final : public CompilationProviderHarness {
 public:
  DisassemblingHarness() { next_.FinishAtOnce(); }

  CompilationProvider& provider() override { return provider_; }
  CompileJobPtr NewJob() override {
    return MakeJob(std::to_string(next_job_++), CachePolicy::kUse, {"sass"});
  }
  void Hold() override { next_.HoldAll(); }
  void Release() override {
    next_.FinishAtOnce();
    next_.FinishAll();
  }
  SteadyTime NearDeadline() override { return clock_.Now() + std::chrono::minutes(1); }
  void PassDeadline() override { timer_.Advance(std::chrono::minutes(2)); }

 private:
  TempDirectory directory_;
  FakeClock clock_;
  FakeTimer timer_{clock_};
  FakeProvider next_{&timer_};
  DisassemblingProvider provider_{
      std::make_unique<BorrowedProvider>(next_), [this] { return here_; },
      std::make_unique<SassProvider>([this] { return here_; },
                                     [](const Toolchain&, const absl::Status&) {})};
  int next_job_ = 0;
  // Last: its threads call back into the rest.
  const Disassembler here_{MakeFakeCompiler("12.8", "nvdisasm"),
                           std::make_shared<WorkerPool>(FakePoolOptions(directory_.File("work")))};
};

INSTANTIATE_TEST_SUITE_P(Outermost, CompilationProviderConformance,
                         testing::Values(HarnessFactory{
                             "Disassembling",
                             [] { return std::make_unique<DisassemblingHarness>(); }}),
                         HarnessName());

}  // namespace
}  // namespace kiln
