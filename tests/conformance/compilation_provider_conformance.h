// What every CompilationProvider must do, whatever it adds.
//
// A provider's test derives a CompilationProviderHarness and instantiates the suite with a factory
// for it:
//
//   INSTANTIATE_TEST_SUITE_P(Pooled, CompilationProviderConformance,
//   testing::Values(HarnessFactory{"pooled", MakePooledHarness}),
//                            HarnessName());
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/chain/compilation_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {

// A provider together with the means to make its compiles take as long as a test needs.
class CompilationProviderHarness {
 public:
  virtual ~CompilationProviderHarness() = default;

  virtual CompilationProvider& provider() = 0;
  // A job that compiles, different from all before.
  virtual CompileJobPtr NewJob() = 0;
  // Compiles that start from now on do not end before Release().
  virtual void Hold() = 0;
  virtual void Release() = 0;
  // A moment that has not come and will have come after PassDeadline().
  virtual SteadyTime NearDeadline() = 0;
  virtual void PassDeadline() = 0;
};

struct HarnessFactory {
  std::string name;
  std::function<std::unique_ptr<CompilationProviderHarness>()> make;
};

inline void PrintTo(const HarnessFactory& factory, std::ostream* out) { *out << factory.name; }

struct HarnessName {
  std::string operator()(const testing::TestParamInfo<HarnessFactory>& info) const {
    return info.param.name;
  }
};

class CompilationProviderConformance : public testing::TestWithParam<HarnessFactory> {
 protected:
  CompilationProvider& provider() { return harness_->provider(); }
  void Compile(const CallContext& context, const CompileJobPtr& job, const ResultProbe& probe) {
    provider().Compile(context, job, ResultProbe(probe).Done());
  }

  const std::unique_ptr<CompilationProviderHarness> harness_ = GetParam().make();
};

TEST_P(CompilationProviderConformance, AnswersWithTheArtifactOfTheKey) {
  const CompileJobPtr job = harness_->NewJob();
  ResultProbe probe;
  Compile(CallContext(), job, probe);
  const absl::StatusOr<CompileResult> result = probe.Result();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_NE(result->artifact(), nullptr);
  EXPECT_EQ(result->artifact()->key, job->key);
  EXPECT_FALSE(result->artifact()->stages.empty());
}

TEST_P(CompilationProviderConformance, AnswersEachOfManyOnce) {
  std::vector<ResultProbe> probes(50);
  for (const ResultProbe& probe : probes) Compile(CallContext(), harness_->NewJob(), probe);
  for (const ResultProbe& probe : probes) EXPECT_TRUE(probe.Result().ok());
}

TEST_P(CompilationProviderConformance, ACancelledCallEndsThoughItsCompileDoesNot) {
  harness_->Hold();
  CallContext context;
  ResultProbe probe;
  Compile(context, harness_->NewJob(), probe);
  context.cancellation.Cancel();
  EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  harness_->Release();
}

TEST_P(CompilationProviderConformance, ACallCancelledBeforehandEnds) {
  harness_->Hold();
  CallContext context;
  context.cancellation.Cancel();
  ResultProbe probe;
  Compile(context, harness_->NewJob(), probe);
  EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  harness_->Release();
}

TEST_P(CompilationProviderConformance, ACallWhoseDeadlinePassesEndsThoughItsCompileDoesNot) {
  harness_->Hold();
  CallContext context;
  context.deadline = harness_->NearDeadline();
  ResultProbe probe;
  Compile(context, harness_->NewJob(), probe);
  harness_->PassDeadline();
  EXPECT_EQ(probe.Code(), absl::StatusCode::kDeadlineExceeded);
  harness_->Release();
}

TEST_P(CompilationProviderConformance, CancellingAfterTheAnswerDoesNothing) {
  CallContext context;
  ResultProbe probe;
  Compile(context, harness_->NewJob(), probe);
  EXPECT_TRUE(probe.Result().ok());
  context.cancellation.Cancel();
}

TEST_P(CompilationProviderConformance, CancellationEndsOnlyItsOwnCall) {
  harness_->Hold();
  CallContext leaving;
  ResultProbe left;
  ResultProbe stayed;
  Compile(leaving, harness_->NewJob(), left);
  Compile(CallContext(), harness_->NewJob(), stayed);
  leaving.cancellation.Cancel();
  EXPECT_EQ(left.Code(), absl::StatusCode::kCancelled);
  harness_->Release();
  EXPECT_TRUE(stayed.Result().ok());
}

TEST_P(CompilationProviderConformance, WorksOnAfterCancellations) {
  harness_->Hold();
  for (int i = 0; i < 20; ++i) {
    CallContext context;
    ResultProbe probe;
    Compile(context, harness_->NewJob(), probe);
    context.cancellation.Cancel();
    EXPECT_EQ(probe.Code(), absl::StatusCode::kCancelled);
  }
  harness_->Release();
  ResultProbe probe;
  Compile(CallContext(), harness_->NewJob(), probe);
  EXPECT_TRUE(probe.Result().ok());
}

TEST_P(CompilationProviderConformance, RaisingIsHarmless) {
  provider().Raise(Digest::Of("nobody knows this key"), CallContext());
  harness_->Hold();
  const CompileJobPtr job = harness_->NewJob();
  ResultProbe probe;
  Compile(CallContext(), job, probe);
  provider().Raise(job->key, CallContext());
  harness_->Release();
  EXPECT_TRUE(probe.Result().ok());
}

TEST_P(CompilationProviderConformance, DescribesItself) {
  EXPECT_FALSE(provider().Describe().empty());
}

}  // namespace kiln
