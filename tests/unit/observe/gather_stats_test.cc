#include "daemon/observe/gather_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <thread>

#include "daemon/policy/memory_probe.h"
#include "storage/base/limits.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"
#include "storage/user_cache_record.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_catalog.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/result_probe.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// A store that says it takes nothing.
class DegradedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  StoreStats Stats() const override {
    StoreStats stats = ForwardingStore::Stats();
    stats.degraded = "the disk is full";
    return stats;
  }
};

class GatherStatsTest : public ::testing::Test {
 protected:
  GatherStatsTest() {
    AdmissionLimits limits;
    limits.free_memory_bytes_min = 0;
    auto admission = std::make_unique<AdmissionProvider>(std::make_unique<BorrowedProvider>(fake_),
                                                         limits, memory_, clock_, timer_);
    admission_ = admission.get();
    chain_ = std::make_unique<CountingProvider>(std::move(admission));
    auto hot = HotDirectory::Open(directory_.File("hot"), {.bytes_max = limits::kMiB}, clock_);
    EXPECT_TRUE(hot.ok()) << hot.status();
    hot_ = *std::move(hot);
  }

  StatsSources Sources() {
    return {.chain = *chain_,
            .store = store_,
            .hot = *hot_,
            .own = own_,
            .pools = Served(),
            .admission = *admission_,
            .negatives = negatives_,
            .jail = jail_};
  }
  void Ask(std::string_view source) {
    chain_->Compile({}, MakeJob(source), answers_.emplace_back().Done());
  }
  // A pool of one worker for a toolchain of that version.
  WorkerPool& AddPool(const std::string& version) {
    toolchains_.push_back(MakeFakeCompiler(version));
    return pools_.emplace_back(FakePoolOptions(directory_.File("work-" + version)));
  }
  std::vector<ToolchainPool> Served() const {
    std::vector<ToolchainPool> served;
    for (size_t i = 0; i < pools_.size(); ++i) {
      served.push_back({toolchains_[i], pools_[i].Stats()});
    }
    return served;
  }
  static absl::Status Do(WorkerPool& pool, const std::string& what) {
    std::promise<absl::Status> done;
    pool.Submit({}, FakeRequest(what),
                [&](const absl::StatusOr<WorkerReply>& reply) { done.set_value(reply.status()); });
    return done.get_future().get();
  }

  TempDirectory directory_;
  FakeClock clock_;
  FakeTimer timer_{clock_};
  const SystemMemoryProbe memory_{OsFilesystem(), clock_};
  NegativeCache negatives_{clock_, std::chrono::minutes(1)};
  Jail jail_{Jail::Mode::kOn, JailSupport{}};
  FakeProvider fake_;
  std::deque<ResultProbe> answers_;
  AdmissionProvider* admission_;
  std::unique_ptr<CountingProvider> chain_;
  MemoryStore store_{limits::kGiB, clock_};
  UserQuota own_{UserQuotaLimits(), clock_};
  std::unique_ptr<HotDirectory> hot_;
  std::deque<WorkerPool> pools_;
  std::vector<std::shared_ptr<const Toolchain>> toolchains_;
};

TEST_F(GatherStatsTest, TellsWhatItIsAndHowItIsComposed) {
  StatsSources sources = Sources();
  sources.started_unix_ms = 1234;
  sources.connections = 5;
  const DaemonStats stats = GatherStats(sources);
  EXPECT_FALSE(stats.version.empty());
  EXPECT_EQ(stats.started_unix_ms, 1234);
  EXPECT_EQ(stats.connections, 5u);
  EXPECT_EQ(stats.compile_path, "counting(admission(fake))");
  EXPECT_EQ(stats.store, "memory");
  EXPECT_EQ(stats.state, "serving");
  EXPECT_EQ(stats.state_reason, "");
}

TEST_F(GatherStatsTest, TellsWhatTheJailLacks) {
  const DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.jail, "on");
  EXPECT_THAT(stats.jail_problems,
              testing::ElementsAre(testing::HasSubstr("Landlock"), testing::HasSubstr("seccomp")));
}

TEST_F(GatherStatsTest, CountsRequestsUnderWayAndDone) {
  for (const char* source : {"a", "b", "c"}) Ask(source);
  DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.requests, 3u);
  EXPECT_EQ(stats.admission.running, 1u);
  EXPECT_EQ(stats.admission.running_max, 1);
  EXPECT_EQ(stats.admission.expected_bytes, limits::kCompileMemoryDefault);
  EXPECT_GT(stats.admission.memory.available_bytes.value_or(0), 0u);
  EXPECT_EQ(stats.admission.held_back, 0u);
  EXPECT_EQ(stats.admission.queued, 2u);
  EXPECT_EQ(stats.admission.queued_bytes, admission_->Stats().queued_bytes);
  EXPECT_EQ(stats.admission.queued_by_priority, (std::array<size_t, 4>{2, 0, 0, 0}));
  EXPECT_EQ(stats.compiled, 0u);

  fake_.FinishOne();
  fake_.FinishOne(FailedWith("parse error"));
  CompileResult hit = CompiledFrom(*MakeJob("c"));
  hit.outcome = Outcome::kHit;
  hit.tier = Tier::kDisk;
  fake_.FinishOne(hit);
  stats = GatherStats(Sources());
  EXPECT_EQ(stats.admission.running, 0u);
  EXPECT_EQ(stats.admission.queued, 0u);
  EXPECT_EQ(stats.compiled, 1u);
  EXPECT_EQ(stats.failed, 1u);
  EXPECT_EQ(stats.hits_disk, 1u);
  EXPECT_EQ(stats.hits_memory, 0u);
}

TEST_F(GatherStatsTest, EveryRequestStandsInExactlyOneRow) {
  CompileResult remote = CompiledFrom(*MakeJob("a"));
  remote.outcome = Outcome::kHit;
  remote.tier = Tier::kRemote;
  const std::vector<absl::StatusOr<CompileResult>> answers = {
      remote, NotFound("not cached"), Cancelled("gone"), Internal("crashed twice")};
  for (const auto& answer : answers) {
    Ask("a");
    fake_.FinishOne(answer);
  }
  Ask("under way");
  const DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.requests, 5u);
  EXPECT_EQ(stats.hits_remote, 1u);
  EXPECT_EQ(stats.not_found, 1u);
  EXPECT_EQ(stats.abandoned, 1u);
  EXPECT_EQ(stats.errors, 1u);
  EXPECT_EQ(stats.in_flight, 1u);
  fake_.FinishOne(CompiledFrom(*MakeJob("under way")));
}

TEST_F(GatherStatsTest, RequestsThatNeverReachedTheChainAreRejectedOnes) {
  fake_.FinishAtOnce();
  Ask("a");
  StatsSources sources = Sources();
  sources.refused = 3;
  const DaemonStats stats = GatherStats(sources);
  EXPECT_EQ(stats.requests, 4u);
  EXPECT_EQ(stats.rejected, 3u);
}

TEST_F(GatherStatsTest, TellsWhatIsInQuarantine) {
  negatives_.RememberCrash(MakeJob("a"), "crashed");
  negatives_.Refuse(Digest::Of("a"));
  negatives_.Refuse(Digest::Of("a"));
  const DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.sources_quarantined, 1u);
  EXPECT_EQ(stats.quarantine_refusals, 2u);
}

TEST_F(GatherStatsTest, TellsWhatIsStoredAndPublished) {
  const MadeArtifact both = MakeArtifact("a"), stored = MakeArtifact("b");
  ASSERT_TRUE(store_.index().Put({}, both.record, both.blobs).ok());
  hot_->OnPut(both.record, both.blobs);
  ASSERT_TRUE(store_.index().Put({}, stored.record, stored.blobs).ok());
  ArtifactRecord own;
  own.key = UserCacheKey(1000, "key");
  own.document = EncodeUserCacheRecord({1000, "key", {}});
  ASSERT_TRUE(store_.index().Put({}, own, {}).ok());
  own_.OnPut(own, {});
  const DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.artifacts, 2u);
  EXPECT_EQ(stats.own.entries, 1u);
  EXPECT_EQ(stats.own.bytes, own.document.size());
  EXPECT_EQ(stats.store_bytes, store_.Stats().stored_bytes);
  EXPECT_EQ(stats.store_bytes_max, store_.Stats().stored_bytes_max);
  EXPECT_GT(stats.store_bytes, 0u);
  EXPECT_EQ(stats.hot_files, 1u);
  EXPECT_EQ(stats.hot_bytes, hot_->Stats().bytes);
  EXPECT_GT(stats.hot_bytes, 0u);
}

TEST_F(GatherStatsTest, AddsUpTheWorkersOfAllToolchains) {
  WorkerPool& working = AddPool("1.0");
  EXPECT_TRUE(Do(working, "answer text").ok());
  WorkerPool& crashing = AddPool("2.0");
  EXPECT_FALSE(Do(crashing, "segfault").ok());
  crashing.Shutdown(SteadyTime::min());
  // The worker that compiled has ended, and a spare one waits.
  while (working.Stats().started != 2 || working.Stats().workers != 1) std::this_thread::yield();
  const DaemonStats stats = GatherStats(Sources());
  EXPECT_EQ(stats.workers, 1u);
  EXPECT_EQ(stats.pools.started, working.Stats().started + crashing.Stats().started);
  EXPECT_EQ(stats.pools.crashed, 2u);  // it was tried once more
  EXPECT_EQ(stats.toolchains[0].compiles, 1u);
  EXPECT_EQ(stats.pools.compile_cpu_micros, 1000u);
  ASSERT_EQ(stats.toolchains.size(), 2u);
  EXPECT_EQ(stats.toolchains[0].name, "fake==1.0");
  EXPECT_EQ(stats.toolchains[0].fingerprint, Digest::Of("fake==1.0"));
  EXPECT_EQ(stats.toolchains[0].state, "ready");
  EXPECT_EQ(stats.toolchains[0].workers, 1u);
  EXPECT_EQ(stats.toolchains[1].name, "fake==2.0");
  EXPECT_EQ(stats.toolchains[1].state, crashing.Stats().zygote);
  EXPECT_EQ(stats.toolchains[1].workers, 0u);
}

TEST_F(GatherStatsTest, ToolchainsThatAreGoneStillCount) {
  StatsSources sources = Sources();
  sources.ended_pools.crashed = 3;
  const DaemonStats stats = GatherStats(sources);
  EXPECT_EQ(stats.pools.crashed, 3u);
  EXPECT_TRUE(stats.toolchains.empty());
}

TEST_F(GatherStatsTest, DegradedStoreIsToldUntilTheDaemonDrains) {
  DegradedStore degraded(std::make_unique<MemoryStore>(limits::kMiB, clock_));
  StatsSources sources{.chain = *chain_,
                       .store = degraded,
                       .hot = *hot_,
                       .own = own_,
                       .pools = Served(),
                       .admission = *admission_,
                       .negatives = negatives_,
                       .jail = jail_};
  EXPECT_EQ(GatherStats(sources).state, "degraded");
  EXPECT_EQ(GatherStats(sources).state_reason, "the disk is full");
  sources.is_draining = true;
  EXPECT_EQ(GatherStats(sources).state, "draining");
  EXPECT_EQ(GatherStats(sources).state_reason, "");
}

}  // namespace
}  // namespace kiln
