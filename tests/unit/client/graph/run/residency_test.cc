// Plans that do not fit into the device's memory together: their kernels are loaded again.
#include "tests/unit/client/graph/run/bound_plan_fixture.h"

namespace kiln::graph {
namespace {

Segment Layer() {
  SegmentMaker maker;
  int x = maker.Input({maker.Symbol("n", 1, 1000, 64), 32});
  for (const char* op : {"Exp", "Sqrt", "Relu"}) x = maker.Add(op, {x});
  maker.Output(x);
  return maker.segment();
}

// A plan whose kernels no other plan has: their code has the plan's number in it.
class LoadedPlan {
 public:
  LoadedPlan(FakeCudaLibrary& fake, kiln_launch_runtime* runtime, size_t number)
      : plan_(UnfusedPlanOf(Layer())), bound_(BoundPlan::Make(plan_, runtime, 0).value()) {
    for (size_t i = 0; i < plan_.kernels().size(); ++i) {
      kiln_launch_artifact* const artifact =
          MadeArtifact(fake, plan_.kernels()[i], std::to_string(number));
      EXPECT_TRUE(bound_->SetArtifact(i, artifact).ok());
      kiln_launch_artifact_close(artifact);
    }
  }
  absl::Status Prepare() { return bound_->Prepare(); }
  absl::Status Execute(void* stream = nullptr) const {
    const std::vector<uint64_t> buffers = {0x10'0000, 0x20'0000, 0x30'0000, 0x40'0000};
    const std::vector<int64_t> symbols = {10};
    size_t next = 0;
    return bound_->Execute({.buffers = buffers,
                            .symbols = symbols,
                            .workspace = 0x900'0000,
                            .workspace_bytes = 1 << 20,
                            .stream = stream},
                           next);
  }

 private:
  KernelPlan plan_;
  std::unique_ptr<BoundPlan> bound_;
};

// Three plans of three kernels each on one runtime; room for four kernels.
class ResidencyTest : public testing::Test {
 protected:
  static constexpr int kRoom = 4;
  static constexpr size_t kPlans = 3;

  ResidencyTest() {
    fake_->MakeContext();
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
  }
  ~ResidencyTest() override {
    plans_.clear();
    kiln_launch_close(runtime_);
    fake_->SetCurrent(nullptr);
  }
  void Load() {
    for (size_t i = 0; i < kPlans; ++i) {
      plans_.push_back(std::make_unique<LoadedPlan>(fake_, runtime_, i));
      const absl::Status status = plans_.back()->Prepare();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // All plans, one after the other.
  void ExecuteAll(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const auto& plan : plans_) {
        const absl::Status status = plan->Execute();
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_LE(fake_->loaded(), kRoom);
      }
    }
    EXPECT_EQ(fake_->launches().size(), static_cast<size_t>(rounds) * kPlans * 3);
  }
  kiln_launch_stats Stats() const {
    kiln_launch_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(kiln_launch_get_stats(runtime_, &stats), KILN_LAUNCH_OK);
    return stats;
  }

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  std::vector<std::unique_ptr<LoadedPlan>> plans_;
};

TEST_F(ResidencyTest, UnderALimitKernelsAreUnloadedAndLoadedAgain) {
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.resident_kernels_max = kRoom;
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  Load();
  ExecuteAll(3);
  EXPECT_EQ(Stats().kernels_resident, static_cast<uint64_t>(kRoom));
  EXPECT_GT(Stats().loads_at_launch, 0u);
}

TEST_F(ResidencyTest, WithoutMemoryOthersAreUnloadedAndTheLoadIsTriedAgain) {
  fake_->libraries_max = kRoom;
  Load();
  ExecuteAll(3);
  EXPECT_GT(Stats().loads_at_launch, 0u);
}

TEST_F(ResidencyTest, WhatACapturedGraphLaunchesStays) {
  fake_->libraries_max = kRoom;
  Load();
  ASSERT_TRUE(plans_[0]->Prepare().ok());
  int stream = 0;
  fake_->BeginCapture(&stream);
  const absl::Status captured = plans_[0]->Execute(&stream);
  ASSERT_TRUE(captured.ok()) << captured;
  void* const graph = fake_->EndCapture(&stream);
  ASSERT_NE(graph, nullptr);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 1; i < kPlans; ++i) {
      const absl::Status status = plans_[i]->Execute();
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(fake_->IsRunnable(graph));
    }
  }
  fake_->DestroyGraph(graph);
}

}  // namespace
}  // namespace kiln::graph
