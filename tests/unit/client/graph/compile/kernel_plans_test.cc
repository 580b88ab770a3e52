#include "client/graph/compile/kernel_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

SegmentMaker Product() {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  maker.Output(maker.Add("Relu", {maker.Add("MatMul", {x, x})}));
  return maker;
}

absl::StatusOr<KernelPlans> PlansFor(const std::vector<std::string>& targets,
                                     const CompileConfig& like = {}) {
  std::vector<CompileConfig> configs;
  for (const std::string& target : targets) {
    configs.push_back(like);
    configs.back().target = target;
  }
  return KernelPlans::Make(Product().segment(), {}, configs);
}

TEST(KernelPlansTest, APlanOfManyTargetsIsThatOfEach) {
  const std::vector<std::string> targets = {"cuda:90", "spirv:1.2", "hip:gfx942", "cuda:75"};
  const auto plans = PlansFor(targets);
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->plans().size(), targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto alone = KernelPlan::Make(Product().segment(), {}, {.target = targets[i]});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(plans->plans()[i].target(), targets[i]);
    EXPECT_EQ(plans->plans()[i].Key(), alone->Key());
    EXPECT_EQ(plans->plans()[i].Explanation(), alone->Explanation());
    EXPECT_EQ(plans->plans()[i].kernels()[0].kernel.text, alone->kernels()[0].kernel.text);
  }
}

TEST(KernelPlansTest, ATargetThatNoCompilerMakesCodeForIsRefused) {
  const auto plans =
      PlansFor({"cuda:90", "hip:gfx942"}, {.target = {}, .available = {Compiler::kCuda}});
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->plans().size(), 1u);
  EXPECT_EQ(plans->plans()[0].target(), "cuda:90");
  ASSERT_EQ(plans->refusals().size(), 1u);
  EXPECT_EQ(plans->refusals()[0].target, "hip:gfx942");
  EXPECT_THAT(plans->refusals()[0].why.ToString(), HasSubstr("makes code for target hip:gfx942"));
}

TEST(KernelPlansTest, WhatNoTargetHasIsRefusedByName) {
  const auto none =
      PlansFor({"cuda:90", "hip:gfx942"}, {.target = {}, .forced = Compiler::kOpenCl});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(none.status().ToString(), HasSubstr("there is a plan for none of the targets: "));
  EXPECT_THAT(none.status().ToString(), HasSubstr("no code for target cuda:90"));
  EXPECT_THAT(none.status().ToString(), HasSubstr("no code for target hip:gfx942"));
  EXPECT_THAT(PlansFor({}).status().ToString(), HasSubstr("need a target"));
  EXPECT_THAT(PlansFor({"cuda:90", "soup"}).status().ToString(), HasSubstr("target \"soup\""));
  EXPECT_THAT(PlansFor({"cuda:90", "cuda:90"}).status().ToString(),
              HasSubstr("target cuda:90 is named twice"));
}

TEST(KernelPlansTest, ADeviceHasTheTargetThatIsClosestToIt) {
  const std::vector<std::string> targets = {"cuda:80",    "cuda:86",   "cuda:90a", "cuda:100",
                                            "hip:gfx942", "spirv:1.0", "spirv:1.2"};
  const auto found = [&targets](std::string_view device) {
    const auto number = FindTarget(targets, device);
    return number.ok() ? targets[*number] : std::string(number.status().message());
  };
  EXPECT_EQ(found("80"), "cuda:80");
  EXPECT_EQ(found("86"), "cuda:86");
  EXPECT_EQ(found("89"), "cuda:86");
  EXPECT_EQ(found("90"), "cuda:90a");
  EXPECT_EQ(found("gfx942:sramecc+:xnack-"), "hip:gfx942");
  EXPECT_EQ(found("1.4"), "spirv:1.2");
  EXPECT_EQ(found("1.1"), "spirv:1.0");
  const std::string none =
      "and there are plans for cuda:80, cuda:86, cuda:90a, cuda:100, hip:gfx942, spirv:1.0, "
      "spirv:1.2";
  EXPECT_EQ(found("75"), "the device is cuda:75, " + none);
  EXPECT_EQ(found("103"), "the device is cuda:103, " + none) << "Triton's kernels are for one";
  EXPECT_EQ(found("gfx90a:xnack-"), "the device is hip:gfx90a:xnack-, " + none);
  EXPECT_EQ(found(""), "the device is spirv:, " + none);
}

}  // namespace
}  // namespace kiln::graph
