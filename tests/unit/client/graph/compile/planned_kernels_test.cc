#include "client/graph/compile/planned_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Planned {
  Plan plan;
  absl::StatusOr<std::vector<PlannedKernel>> kernels;
};

Planned KernelsFor(const Segment& segment, const CompileConfig& config) {
  Plan plan = MakePlan(segment, {.keeps_small_sections = true}).value();
  auto kernels = KernelsOf(segment, plan, config, {});
  return {std::move(plan), std::move(kernels)};
}

// An elementwise chain, a product, a softmax.
Segment ThreeSections(DType type = DType::kF32) {
  SegmentMaker maker;
  const int x = maker.Input({64, 32}, type);
  const int w = maker.Input({32, 16}, type);
  const int sum = maker.Add("Add", {x, x});
  maker.Output(sum);
  const int product = maker.Add("MatMul", {sum, w});
  maker.Output(product);
  maker.Output(maker.Add("Softmax", {product}));
  return maker.segment();
}

std::vector<Compiler> CompilersOf(const std::vector<PlannedKernel>& kernels) {
  std::vector<Compiler> compilers;
  for (const PlannedKernel& kernel : kernels) compilers.push_back(kernel.compiler);
  return compilers;
}

TEST(PlannedKernelsTest, OnCudaATemplateWritesWhatHasNoLoopAndTritonTheRest) {
  const Planned planned = KernelsFor(ThreeSections(), {.target = "cuda:90"});
  ASSERT_TRUE(planned.kernels.ok()) << planned.kernels.status();
  const auto& kernels = *planned.kernels;
  EXPECT_THAT(CompilersOf(kernels),
              ElementsAre(Compiler::kPtx, Compiler::kTriton, Compiler::kTriton));
  EXPECT_EQ(kernels[0].why, "no loop: a PTX template needs ptxas alone");
  EXPECT_THAT(kernels[0].left, ElementsAre(Compiler::kTriton, Compiler::kCuda));
  EXPECT_THAT(kernels[0].buffers, ElementsAre(0, 2));
  EXPECT_EQ(kernels[0].num_warps, 0);
  EXPECT_EQ(kernels[1].num_warps, kernels[1].kernel.threads / 32);
  EXPECT_EQ(kernels[1].section, 1);
  EXPECT_EQ(kernels[2].kernel.language, Language::kTritonIr);
}

TEST(PlannedKernelsTest, WhatTakesTooManyParametersIsTheEngines) {
  for (const char* const op : {"Sum", "Concat"}) {
    SegmentMaker maker;
    std::vector<int> inputs;
    for (int i = 0; i < 600; ++i) inputs.push_back(maker.Input({4, 4}));
    Attributes attributes;
    if (op == std::string("Concat")) attributes = {{"axis", int64_t{0}}};
    maker.Output(maker.Add(op, inputs, attributes));
    const Planned planned = KernelsFor(maker.segment(), {.target = "cuda:90"});
    ASSERT_TRUE(planned.kernels.ok()) << planned.kernels.status();
    EXPECT_THAT(*planned.kernels, IsEmpty());
    ASSERT_EQ(planned.plan.refusals.size(), 1u) << op;
    EXPECT_EQ(planned.plan.refusals[0].reason,
              "a kernel of it has 601 parameters, 509 are possible");
  }
}

TEST(PlannedKernelsTest, OtherBackendsHaveOneCompiler) {
  const Planned hip = KernelsFor(ThreeSections(), {.target = "hip:gfx942"});
  ASSERT_TRUE(hip.kernels.ok()) << hip.kernels.status();
  EXPECT_THAT(CompilersOf(*hip.kernels), testing::Each(Compiler::kTriton));
  const Planned spirv = KernelsFor(ThreeSections(), {.target = "spirv:1.2"});
  ASSERT_TRUE(spirv.kernels.ok()) << spirv.kernels.status();
  EXPECT_THAT(CompilersOf(*spirv.kernels), testing::Each(Compiler::kOpenCl));
  EXPECT_THAT(spirv.kernels->front().left, IsEmpty());
}

TEST(PlannedKernelsTest, AWideWarpHalvesTheWarps) {
  const Planned wide = KernelsFor(ThreeSections(), {.target = "hip:gfx942"});
  const Planned narrow = KernelsFor(ThreeSections(), {.target = "hip:gfx1100"});
  const int threads = narrow.kernels->front().kernel.threads;
  EXPECT_EQ(narrow.kernels->front().num_warps, threads / 32);
  EXPECT_EQ(wide.kernels->front().num_warps, std::max(threads / 64, 1));
}

TEST(PlannedKernelsTest, AnOldGpuHasNoTemplates) {
  const Planned planned = KernelsFor(ThreeSections(), {.target = "cuda:75"});
  EXPECT_EQ(planned.kernels->front().compiler, Compiler::kTriton);
}

TEST(PlannedKernelsTest, CompilersThatAreNotThereArePassedOver) {
  const Planned planned = KernelsFor(
      ThreeSections(), {.target = "cuda:90", .available = {Compiler::kCuda, Compiler::kOpenCl}});
  ASSERT_TRUE(planned.kernels.ok()) << planned.kernels.status();
  EXPECT_THAT(CompilersOf(*planned.kernels), testing::Each(Compiler::kCuda));
  const Planned none =
      KernelsFor(ThreeSections(), {.target = "cuda:90", .available = {Compiler::kOpenCl}});
  EXPECT_EQ(none.kernels.status(),
            absl::InvalidArgumentError(
                "none of the compilers that may be used (opencl) makes code for target cuda:90; "
                "there are ptx, cuda, triton"));
}

TEST(PlannedKernelsTest, AForcedCompilerThatCannotIsAnError) {
  const Planned cuda =
      KernelsFor(ThreeSections(), {.target = "cuda:90", .forced = Compiler::kCuda});
  ASSERT_TRUE(cuda.kernels.ok()) << cuda.kernels.status();
  EXPECT_THAT(CompilersOf(*cuda.kernels), testing::Each(Compiler::kCuda));
  EXPECT_EQ(cuda.kernels->front().why, "it is forced");
  const Planned ptx = KernelsFor(ThreeSections(), {.target = "cuda:90", .forced = Compiler::kPtx});
  EXPECT_EQ(ptx.kernels.status(),
            absl::UnimplementedError("MatMul (1): ptx cannot write it: PTX: an inner axis; take "
                                     "another back end"));
  const Planned opencl =
      KernelsFor(ThreeSections(), {.target = "cuda:90", .forced = Compiler::kOpenCl});
  EXPECT_EQ(opencl.kernels.status().message(),
            "compiler opencl makes no code for target cuda:90; there are ptx, cuda, triton");
}

TEST(PlannedKernelsTest, WhatNoCompilerCanWriteIsTheEngines) {
  Planned planned =
      KernelsFor(ThreeSections(), {.target = "cuda:90", .available = {Compiler::kPtx}});
  ASSERT_TRUE(planned.kernels.ok()) << planned.kernels.status();
  EXPECT_THAT(CompilersOf(*planned.kernels), ElementsAre(Compiler::kPtx));
  ASSERT_EQ(planned.plan.refusals.size(), 2u);
  EXPECT_EQ(planned.plan.refusals[0].operation, 1);
  EXPECT_EQ(planned.plan.refusals[0].reason, "ptx cannot write a program with a loop");
  ASSERT_EQ(planned.plan.order.size(), 3u);
  EXPECT_TRUE(planned.plan.order[0].is_section);
  EXPECT_FALSE(planned.plan.order[2].is_section);
}

TEST(PlannedKernelsTest, AFailureTakesTheNextCompiler) {
  const CompileConfig config{.target = "cuda:90"};
  PlannedKernel kernel = KernelsFor(ThreeSections(), config).kernels->front();
  ASSERT_TRUE(UseNextCompiler(kernel, config, "the daemon has no ptxas").ok());
  EXPECT_EQ(kernel.compiler, Compiler::kTriton);
  EXPECT_EQ(kernel.kernel.language, Language::kTritonIr);
  EXPECT_THAT(kernel.why, HasSubstr("ptx: the daemon has no ptxas"));
  ASSERT_TRUE(UseNextCompiler(kernel, config, "it crashed").ok());
  EXPECT_EQ(kernel.compiler, Compiler::kCuda);
  EXPECT_THAT(kernel.left, IsEmpty());
  const absl::Status status = UseNextCompiler(kernel, config, "NVRTC refused it");
  EXPECT_EQ(status, absl::NotFoundError("cuda: NVRTC refused it"));
  EXPECT_EQ(kernel.compiler, Compiler::kCuda);
}

TEST(PlannedKernelsTest, EqualLayersHaveOneText) {
  SegmentMaker maker;
  const Size rows = maker.Symbol("rows", 1, 128, 64);
  int layer = maker.Input({rows, 16});
  for (int i = 0; i < 2; ++i) {
    layer = maker.Add("Softmax", {maker.Add("MatMul", {layer, maker.Input({16, 16})})});
    maker.Output(layer);
  }
  const auto kernels = KernelsFor(maker.segment(), {.target = "cuda:90"}).kernels.value();
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[0].kernel.text, kernels[2].kernel.text);
  EXPECT_EQ(kernels[1].kernel.text, kernels[3].kernel.text);
  EXPECT_THAT(kernels[0].buffers, ElementsAre(0, 1, 2));
  EXPECT_THAT(kernels[2].buffers, ElementsAre(3, 4, 5));
  Segment renamed = maker.segment();
  renamed.symbols[0].name = "batch";
  EXPECT_EQ(kernels[0].kernel.text,
            KernelsFor(renamed, {.target = "cuda:90"}).kernels->front().kernel.text);
}

TEST(PlannedKernelsTest, ConstantsThatAKernelIsWrittenWithMakeAnother) {
  SegmentMaker maker;
  for (const int64_t begin : {1, 2, 1}) {
    const int x = maker.Input({8});
    const int part = maker.Add("Slice", {x, maker.Integers({begin}), maker.Integers({begin + 4})});
    maker.Output(maker.Add("Neg", {part}));
  }
  const auto kernels = KernelsFor(maker.segment(), {.target = "cuda:90"}).kernels.value();
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_NE(kernels[0].kernel.text, kernels[1].kernel.text);
  EXPECT_EQ(kernels[0].kernel.text, kernels[2].kernel.text);
  EXPECT_EQ(kernels[1].buffers.front(), kernels[0].buffers.front() + 5);
}

TEST(PlannedKernelsTest, TheShapeOfAReshapeIsNoParameter) {
  SegmentMaker maker;
  const int x = maker.Input({4, 6});
  maker.Output(maker.Add("Neg", {maker.Add("Reshape", {x, maker.Integers({24})})}));
  const auto kernels = KernelsFor(maker.segment(), {.target = "spirv:1.2"}).kernels.value();
  EXPECT_THAT(kernels.front().buffers, ElementsAre(x, 3));
  EXPECT_EQ(WhatIsWrong(kernels.front().program), "");
}

TEST(PlannedKernelsTest, EachKernelIsExplainedInALine) {
  const auto kernels = KernelsFor(ThreeSections(), {.target = "cuda:90"}).kernels.value();
  EXPECT_EQ(Explain({kernels[0]}),
            "section 0: kernel kiln_add by ptx: no loop: a PTX template needs ptxas alone; then "
            "triton, cuda\n");
}

TEST(PlannedKernelsTest, AnUnknownTargetIsRefusedWithThoseThatExist) {
  for (const char* target :
       {"", "vulkan:1", "cuda", "cuda:", "cuda:x", "hip:90", "spirv", "hip:gfx942:x"}) {
    const Planned planned = KernelsFor(ThreeSections(), {.target = target});
    EXPECT_EQ(planned.kernels.status().message(),
              "no compiler makes code for target \"" + std::string(target) +
                  "\"; targets are written as cuda:90 (ptx, cuda, triton), hip:gfx942 (triton), "
                  "spirv:1.2 (opencl)");
  }
}

}  // namespace
}  // namespace kiln::graph
