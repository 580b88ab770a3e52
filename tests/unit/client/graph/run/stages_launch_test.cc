// Kernels with grid barriers over the CUDA driver's stand-in, which has 4 multiprocessors.
#include <gmock/gmock.h>

#include "client/graph/c_api/kiln_graph.h"
#include "client/launch/driver/abi.h"
#include "tests/unit/client/graph/run/bound_plan_fixture.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

// Kernel 0 has three stages; 1000 rows of 32 are 63 blocks of each.
class StagesLaunchTest : public BoundPlanTest {
 protected:
  StagesLaunchTest() : BoundPlanTest(Chain(), GridBarriers::kAlways) { symbols_ = {1000}; }

  std::vector<FakeLaunch> Launches(const Execution& execution) {
    size_t next = 0;
    const absl::Status status = bound_->Execute(execution, next);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(plan_.steps().at(next).reason, "normalization sections are switched off");
    return fake_->launches();
  }
  static uint32_t Number(const std::string& bytes) {
    EXPECT_EQ(bytes.size(), 4u);
    uint32_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
};

TEST_F(StagesLaunchTest, AGroupIsOneCooperativeLaunchOfWhatIsResident) {
  Load();
  const std::vector<FakeLaunch> launches = Launches(Whole());
  ASSERT_EQ(launches.size(), 1u);
  const FakeLaunch& launch = launches.front();
  EXPECT_EQ(launch.kernel, "kiln_3_stages");
  EXPECT_EQ(launch.attributes.at(launch::abi::kAttributeCooperative)[0], 1u);
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{32, 1, 1}));  // 4 times 1024 / 128
  EXPECT_EQ(Number(launch.arguments.back()), 3u) << "all stages";
  // Values between the stages, then the barrier's memory.
  const uint64_t slot = 128'000;
  ASSERT_EQ(*bound_->WorkspaceBytes(symbols_), 2 * slot + kSlotAlignment);
  EXPECT_EQ(Word(launch.arguments[launch.arguments.size() - 3]), 0x900'0000 + 2 * slot);
  EXPECT_EQ(bound_->explanation(), "kernel kiln_3_stages: one launch of at most 32 blocks\n");
}

TEST_F(StagesLaunchTest, FewPositionsAreFewBlocks) {
  Load();
  symbols_ = {20};
  EXPECT_EQ(Launches(Whole()).at(0).grid[0], 2u);
}

TEST_F(StagesLaunchTest, NothingIsLaunchedForNoElements) {
  Load();
  symbols_ = {0};
  EXPECT_TRUE(Launches(Whole()).empty());
}

TEST_F(StagesLaunchTest, AStreamCapturesIt) {
  Load();
  Execution execution = Whole();
  execution.stream = &symbols_;
  fake_->BeginCapture(execution.stream);
  EXPECT_EQ(Launches(execution).size(), 1u);
  void* const graph = fake_->EndCapture(execution.stream);
  ASSERT_NE(graph, nullptr) << "something ended the capture";
  fake_->DestroyGraph(graph);
}

TEST_F(StagesLaunchTest, ADeviceWithoutCooperativeLaunchesGetsALaunchForEachStage) {
  fake_->is_cooperative = false;
  Load();
  const std::vector<FakeLaunch> launches = Launches(Whole());
  ASSERT_EQ(launches.size(), 3u);
  for (uint32_t stage = 0; stage < 3; ++stage) {
    EXPECT_TRUE(launches[stage].attributes.empty());
    EXPECT_EQ(launches[stage].grid[0], 63u);
    EXPECT_EQ(Number(launches[stage].arguments.back()), stage);
  }
  EXPECT_THAT(bound_->explanation(),
              HasSubstr("kernel kiln_3_stages: a launch for each of its 3 stages: "));
  EXPECT_THAT(bound_->explanation(), HasSubstr("device 0 takes no cooperative launches"));
}

TEST_F(StagesLaunchTest, ADeviceWithoutRoomForOneBlockGetsALaunchForEachStage) {
  threads_max_ = 64;
  Load();
  EXPECT_EQ(Launches(Whole()).size(), 3u);
  EXPECT_THAT(bound_->explanation(), HasSubstr("the device has no room for one of its blocks"));
}

TEST_F(StagesLaunchTest, ADriverThatFailsWhenAskedForRoomIsToldByPrepare) {
  SetArtifact(0);
  SetArtifact(1);
  fake_->Fail("cuOccupancyMaxActiveBlocksPerMultiprocessor",
              launch::abi::kCooperativeLaunchTooLarge);
  const absl::Status status = bound_->Prepare();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("kiln_3_stages"));
}

TEST_F(StagesLaunchTest, TheDriversRefusalOfALaunchIsPassedOnByName) {
  Load();
  fake_->Fail("cuLaunchKernelEx", launch::abi::kCooperativeLaunchTooLarge);
  size_t next = 0;
  const absl::Status status = bound_->Execute(Whole(), next);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("kiln_3_stages"));
}

TEST_F(StagesLaunchTest, WhereItDoesNotCompileItsSectionsGetKernelsOfTheirOwn) {
  ASSERT_EQ(plan_.kernels().size(), 2u);
  ASSERT_EQ(plan_.steps().size(), 3u) << "the group, the softmax, Tanh";
  ASSERT_TRUE(plan_.UseNextCompiler(0, "it crashed").ok());
  EXPECT_EQ(plan_.StepOf(0), -1);
  ASSERT_EQ(plan_.kernels().size(), 5u);
  ASSERT_EQ(plan_.steps().size(), 5u);
  EXPECT_EQ(plan_.StepOf(1), 4) << "kernels keep their numbers";
  EXPECT_THAT(plan_.Explanation(), HasSubstr("a launch each: sections 0, 1, 2: it crashed"));
  EXPECT_TRUE(absl::IsNotFound(plan_.UseNextCompiler(0, "again")));
  Bind();
  Load();
  std::vector<std::string> kernels;
  for (const FakeLaunch& launch : Launches(Whole())) kernels.push_back(launch.kernel);
  EXPECT_EQ(kernels, (std::vector<std::string>{"kiln_relu", "kiln_sqrt", "kiln_exp"}));
  EXPECT_EQ(bound_->explanation(), "");
}

TEST(StagesCApiTest, TheOptionAndTheExplanationAreInC) {
  constexpr char kSegment[] = R"({"kiln_segment": 1, "name": "one",
      "values": [{"name": "x", "type": "f32", "shape": [64, 64], "role": "input"},
                 {"name": "h", "type": "f32", "shape": [64, 64]},
                 {"name": "y", "type": "f32", "shape": [64, 64], "role": "output"}],
      "operations": [{"op": "Softmax", "inputs": ["x"], "outputs": ["h"]},
                     {"op": "Softmax", "inputs": ["h"], "outputs": ["y"]}]})";
  kiln_graph_segment* segment = nullptr;
  kiln_graph_plan* plan = nullptr;
  ASSERT_EQ(kiln_graph_segment_open_json(kSegment, sizeof kSegment - 1, &segment), KILN_GRAPH_OK)
      << kiln_graph_error();
  kiln_graph_plan_options options{};
  options.size = sizeof options;
  options.target = "cuda:90";
  options.barriers = "sometimes";
  EXPECT_EQ(kiln_graph_plan_open(segment, &options, &plan), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_graph_error(), "barriers \"sometimes\" are none of score, always, never");
  options.barriers = "always";
  ASSERT_EQ(kiln_graph_plan_open(segment, &options, &plan), KILN_GRAPH_OK) << kiln_graph_error();
  const char* text = nullptr;
  ASSERT_EQ(kiln_graph_plan_get_explanation(plan, &text), KILN_GRAPH_OK);
  EXPECT_THAT(text, HasSubstr("one kernel: sections 0, 1: it is forced"));
  kiln_graph_step step{};
  step.size = sizeof step;
  ASSERT_EQ(kiln_graph_plan_get_step(plan, 0, &step), KILN_GRAPH_OK);
  EXPECT_EQ(step.operation, 1) << "the root of the last section";
  EXPECT_EQ(step.kernel_count, 1u);
  kiln_graph_plan_close(plan);
  kiln_graph_segment_close(segment);
}

}  // namespace
}  // namespace kiln::graph
