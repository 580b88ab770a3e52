#include "daemon/chain/toolchain_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "daemon/chain/pooled_provider.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/metric_growth.h"
#include "tests/testing/pause.h"
#include "tests/testing/result_probe.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ToolchainPtr = std::shared_ptr<const Toolchain>;

class BrokenSeal final : public ToolchainSeal {
 public:
  absl::Status Check() const override { return FailedPrecondition("changed"); }
};

class ToolchainPoolsTest : public testing::Test {
 protected:
  void Serve(const std::vector<ToolchainPtr>& toolchains) {
    pools_->Serve(toolchains, /*has_default=*/true, std::chrono::minutes(1));
  }
  void Compile(const ToolchainPtr& toolchain, const std::string& source, ResultProbe& probe) {
    const auto job = MakeFakeJob(source);
    job->toolchain = toolchain;
    routing_.Compile({}, job, probe.Done());
  }
  absl::StatusCode Compile(const ToolchainPtr& toolchain, const std::string& source) {
    ResultProbe probe;
    Compile(toolchain, source, probe);
    return probe.Code();
  }
  std::vector<std::string> Listed() const {
    std::vector<std::string> names;
    for (const ToolchainPool& pool : pools_->List()) names.push_back(pool.toolchain->Name());
    return names;
  }
  void AwaitEnds(size_t left) {
    while (pools_->List().size() > left) Pause();
  }
  void AwaitRunning() {
    while (pools_->List().front().stats.running == 0) Pause();
  }
  ToolchainWorkers Make(const ToolchainPtr& toolchain, int serial) {
    ++made_;
    auto pooled = std::make_shared<PooledProvider>(toolchain, Options(serial), clock_);
    WorkerPool& pool = pooled->pool();
    return {pooled, std::shared_ptr<WorkerPool>(pooled, &pool),
            [this] { return are_usable_.load(); }};
  }
  WorkerPoolOptions Options(int serial) const {
    return FakePoolOptions(directory_.File(fmt::format("work-{}", serial)));
  }
  TempDirectory directory_;
  FakeClock clock_;
  Jail jail_{Jail::Mode::kOff, JailSupport{}};
  RoutingProvider routing_;
  std::atomic<int> made_ = 0;
  std::vector<std::string> ahead_;  // those that start before a request
  std::atomic<bool> are_usable_ = true;
  std::unique_ptr<ToolchainPools> pools_ = std::make_unique<ToolchainPools>(
      routing_, jail_, [this](const ToolchainPtr& toolchain, bool starts_ahead, int serial) {
        if (starts_ahead) ahead_.push_back(toolchain->Name());
        return Make(toolchain, serial);
      });
};

// The children of this process that are alive.
std::set<pid_t> Zygotes() {
  std::set<pid_t> zygotes;
  for (const pid_t each : LivingDescendants()) {
    std::ifstream file(fmt::format("/proc/{}/stat", each));
    std::string pid, command, state;
    pid_t parent = 0;
    if (file >> pid >> command >> state >> parent && parent == ::getpid()) zygotes.insert(each);
  }
  return zygotes;
}

TEST_F(ToolchainPoolsTest, AddsAPoolWhileAnotherCompiles) {
  const auto one = MakeFakeCompiler("1.0");
  const auto two = MakeFakeCompiler("2.0");
  Serve({one});
  EXPECT_EQ(Compile(two, "answer a"), absl::StatusCode::kUnavailable);
  Serve({one, two});
  EXPECT_EQ(Compile(one, "answer a"), absl::StatusCode::kOk);
  EXPECT_EQ(Compile(two, "answer a"), absl::StatusCode::kOk);
  EXPECT_EQ(made_, 2);  // that of the first is still the same
  EXPECT_THAT(Listed(), ElementsAre("fake==1.0", "fake==2.0"));
}

TEST_F(ToolchainPoolsTest, TheDefaultTritonAndTheFirstPtxasStartAhead) {
  const auto triton = MakeFakeCompiler("2.0");
  triton->interpreter = "/usr/bin/python3";
  Serve({triton, MakeFakeCompiler("1.0"), MakeFakeCompiler("12.9", "ptxas"),
         MakeFakeCompiler("12.8", "ptxas")});
  EXPECT_THAT(ahead_, ElementsAre("fake==2.0", "ptxas==12.9"));
}

TEST_F(ToolchainPoolsTest, ANativeDefaultStartsWithItsFirstRequest) {
  Serve({MakeFakeCompiler("2.0"), MakeFakeCompiler("12.9", "ptxas")});
  EXPECT_THAT(ahead_, ElementsAre("ptxas==12.9"));
}

TEST_F(ToolchainPoolsTest, WithoutADefaultTheFirstPtxasAloneStartsAhead) {
  pools_->Serve({MakeFakeCompiler("1.0"), MakeFakeCompiler("12.9", "ptxas")},
                /*has_default=*/false, std::chrono::minutes(1));
  EXPECT_THAT(ahead_, ElementsAre("ptxas==12.9"));
}

TEST_F(ToolchainPoolsTest, RemovingAToolchainLetsItsRunningCompileFinish) {
  const auto one = MakeFakeCompiler("1.0");
  Serve({one});
  ResultProbe running;
  Compile(one, "sleep", running);
  AwaitRunning();
  Serve({});
  EXPECT_EQ(pools_->List().front().stats.zygote, "ending");
  EXPECT_EQ(Compile(one, "answer b"), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(running.HasResult());
  // The running compile hears of it when the daemon ends.
  pools_->Shutdown();
  EXPECT_EQ(running.Code(), absl::StatusCode::kUnavailable);
}

TEST_F(ToolchainPoolsTest, AnIdleOneThatIsRemovedEndsAndItsCountsStay) {
  const MetricGrowth growth{};
  const auto one = MakeFakeCompiler("1.0");
  Serve({one});
  EXPECT_EQ(Compile(one, "answer a"), absl::StatusCode::kOk);
  Serve({});
  AwaitEnds(0);
  EXPECT_EQ(growth.Of("compiles"), 1);
  EXPECT_EQ(LivingDescendants().size(), 0u);
}

TEST_F(ToolchainPoolsTest, RemovingAChangedToolchainCancelsItsCompiles) {
  auto one = MakeFakeCompiler("1.0");
  one->seal = std::make_shared<BrokenSeal>();
  Serve({one});
  ResultProbe running;
  Compile(one, "sleep", running);
  AwaitRunning();
  Serve({});
  EXPECT_EQ(running.Code(), absl::StatusCode::kUnavailable);
}

TEST_F(ToolchainPoolsTest, EqualBytesThatWereTouchedGetNewProcesses) {
  const auto before = MakeFakeCompiler("1.0");
  auto after = MakeFakeCompiler("1.0");
  after->listing = Digest::Of("touched");
  Serve({before});
  EXPECT_EQ(Compile(before, "answer a"), absl::StatusCode::kOk);
  Serve({after});
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(Compile(after, "answer b"), absl::StatusCode::kOk);
}

TEST_F(ToolchainPoolsTest, WorkersThatCompileNothingMoreAreReplaced) {
  const auto one = MakeFakeCompiler("1.0");
  Serve({one});
  are_usable_ = false;
  Serve({one});
  EXPECT_EQ(made_, 2);
  are_usable_ = true;
  EXPECT_EQ(Compile(one, "answer a"), absl::StatusCode::kOk);
}

TEST_F(ToolchainPoolsTest, AnotherPtxasHasWorkersStartAfresh) {
  const auto one = MakeFakeCompiler("1.0");
  Serve({one});
  EXPECT_EQ(Compile(one, "answer a"), absl::StatusCode::kOk);
  const std::set<pid_t> before = Zygotes();
  Serve({one, MakeFakeCompiler("12.9", "ptxas")});
  EXPECT_EQ(Compile(one, "answer b"), absl::StatusCode::kOk);
  std::set<pid_t> after = Zygotes();
  EXPECT_FALSE(std::includes(before.begin(), before.end(), after.begin(), after.end()));
  // The old zygote ends once its workers have.
  while ((after = Zygotes()).size() > 1) Pause();
  Serve({one, MakeFakeCompiler("12.9", "ptxas")});
  EXPECT_EQ(Compile(one, "answer c"), absl::StatusCode::kOk);
  EXPECT_EQ(Zygotes(), after);
  EXPECT_EQ(made_, 2);
}

TEST_F(ToolchainPoolsTest, ManyRequestsMeetNothingButAnswers) {
  std::vector<ToolchainPtr> toolchains{MakeFakeCompiler("1.0"), MakeFakeCompiler("2.0")};
  Serve(toolchains);
  std::vector<std::unique_ptr<ResultProbe>> probes;
  for (int i = 0; i < 60; ++i) {
    probes.push_back(std::make_unique<ResultProbe>());
    Compile(toolchains[static_cast<size_t>(i % 2)], fmt::format("answer {}", i), *probes.back());
    if (i % 10 == 5) Serve({toolchains[static_cast<size_t>(i / 10 % 2)]});
    if (i % 10 == 9) Serve(toolchains);
  }
  for (const auto& probe : probes) {
    const absl::StatusCode code = probe->Code();
    EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kUnavailable)
        << probe->Result().status();
  }
}

}  // namespace
}  // namespace kiln
