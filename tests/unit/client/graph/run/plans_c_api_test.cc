// Plans of several targets in kiln_graph.h, over the CUDA driver's stand-in: a device of sm_90.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/graph/c_api/kiln_graph.h"
#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr char kSums[] = R"({"kiln_segment": 1, "name": "sums",
 "values": [{"name": "x", "type": "f32", "shape": [8, 16], "role": "input"},
            {"name": "y", "type": "f32", "shape": [8, 16], "role": "output"}],
 "operations": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}]})";

class PlansCApiTest : public testing::Test {
 protected:
  PlansCApiTest() {
    EXPECT_EQ(kiln_graph_segment_open_json(kSums, sizeof kSums - 1, &segment_), KILN_GRAPH_OK);
  }
  ~PlansCApiTest() override {
    for (kiln_graph_plan* plan : plans_) kiln_graph_plan_close(plan);
    kiln_graph_segment_close(segment_);
  }
  kiln_graph_code Open(const std::vector<const char*>& targets, const char* compilers = nullptr) {
    kiln_graph_plan_options options{};
    options.size = sizeof options;
    options.compilers = compilers;
    return kiln_graph_plans_open(segment_, &options, targets.data(),
                                 static_cast<uint32_t>(targets.size()), plans_.data(),
                                 refusals_.data());
  }

  kiln_graph_segment* segment_ = nullptr;
  std::array<kiln_graph_plan*, 3> plans_ = {};
  std::array<const char*, 3> refusals_ = {};
};

TEST_F(PlansCApiTest, EachTargetHasAPlanOrAReason) {
  ASSERT_EQ(Open({"spirv:1.2", "hip:gfx942", "cuda:90"}, "opencl,cuda"), KILN_GRAPH_OK)
      << kiln_graph_error();
  EXPECT_NE(plans_[0], nullptr);
  EXPECT_EQ(plans_[1], nullptr);
  EXPECT_NE(plans_[2], nullptr);
  EXPECT_STREQ(refusals_[0], "");
  EXPECT_THAT(refusals_[1], HasSubstr("makes code for target hip:gfx942"));
  kiln_graph_kernel kernel{};
  kernel.size = sizeof kernel;
  ASSERT_EQ(kiln_graph_plan_get_kernel(plans_[2], 0, &kernel), KILN_GRAPH_OK);
  EXPECT_STREQ(kernel.target, "cuda:90");
  EXPECT_STREQ(kernel.kind, "cuda");
}

TEST_F(PlansCApiTest, TargetsThatHaveNoPlanAreNamed) {
  EXPECT_EQ(Open({"cuda:90", "hip:gfx942"}, "opencl"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("cuda:90"));
  EXPECT_THAT(kiln_graph_error(), HasSubstr("hip:gfx942"));
  EXPECT_EQ(Open({"cuda:90", nullptr}), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_graph_error(), "a plan needs a target");
  EXPECT_EQ(Open({"cuda:90", "soup:1"}), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("soup:1"));
  const char* const target = "cuda:90";
  kiln_graph_plan_options options{};
  options.size = sizeof options;
  options.target = target;
  EXPECT_EQ(kiln_graph_plans_open(segment_, &options, &target, 1, plans_.data(), nullptr),
            KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(plans_[0], nullptr);
}

TEST_F(PlansCApiTest, ADeviceHasThePlanOfItsTarget) {
  FakeCudaLibrary fake;
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.driver_path = fake.path().c_str();
  kiln_launch_runtime* runtime = nullptr;
  ASSERT_EQ(kiln_launch_open(&options, &runtime), KILN_LAUNCH_OK) << kiln_launch_error();
  ASSERT_EQ(Open({"cuda:80", "hip:gfx942", "cuda:90"}), KILN_GRAPH_OK);
  uint32_t number = 7;
  ASSERT_EQ(kiln_graph_plans_find(plans_.data(), 3, runtime, 0, &number), KILN_GRAPH_OK)
      << kiln_graph_error();
  EXPECT_EQ(number, 2u);
  EXPECT_EQ(kiln_graph_plans_find(plans_.data(), 2, runtime, 0, &number), KILN_GRAPH_NOT_FOUND);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("device 0 ("));
  EXPECT_THAT(kiln_graph_error(),
              HasSubstr("the device is cuda:90, and there are plans for cuda:80, hip:gfx942"));
  EXPECT_EQ(number, 2u);
  EXPECT_EQ(kiln_graph_plans_find(plans_.data(), 0, runtime, 0, &number),
            KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_NE(kiln_graph_plans_find(plans_.data(), 3, runtime, 99, &number), KILN_GRAPH_OK);
  kiln_launch_close(runtime);
}

TEST_F(PlansCApiTest, OneManifestHasTheKernelsOfAll) {
  ASSERT_EQ(Open({"cuda:80", "hip:gfx942", "spirv:1.2"}), KILN_GRAPH_OK);
  const TempDirectory folder;
  const std::string path = folder.path() + "/sums.jsonl";
  ASSERT_EQ(kiln_graph_plans_write_manifest(plans_.data(), 3, path.c_str()), KILN_GRAPH_OK)
      << kiln_graph_error();
  std::vector<std::string> targets;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    targets.push_back(nlohmann::json::parse(line).at("target"));
  }
  EXPECT_EQ(targets, (std::vector<std::string>{"cuda:80", "hip:gfx942", "spirv:1.2"}));
}

}  // namespace
}  // namespace kiln
