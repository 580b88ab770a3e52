// Kernels for parts of a symbol's range, by the sizes of each launch.
#include <gmock/gmock.h>

#include "tests/unit/client/graph/run/bound_plan_fixture.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

// Adds a row to each row of a matrix, in memory with gaps: rows that are multiples of 8 have a
// variant.
Segment WithVariant() {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 1, 1000, 64);
  const std::vector<Size> gaps = {Size(2) * n, 1};
  const int x = maker.Input({3, n}, DType::kF32, gaps);
  const int y = maker.Add("Add", {x, maker.Input({n})});
  maker.segment().values[static_cast<size_t>(y)].strides = gaps;
  maker.Output(y);
  return maker.segment();
}

class VariantTest : public BoundPlanTest {
 protected:
  VariantTest() : BoundPlanTest(WithVariant()) {}

  // The number of the one kernel that is launched at this size: their grids differ.
  size_t LaunchedAt(int64_t n) {
    symbols_ = {n};
    const size_t before = fake_->launches().size();
    size_t next = 0;
    const absl::Status status = bound_->Execute(Whole(), next);
    EXPECT_TRUE(status.ok()) << status;
    const std::vector<FakeLaunch> launches = fake_->launches();
    EXPECT_EQ(launches.size(), before + 1);
    return GridOf(0, n) == launches.back().grid[0] ? 0 : 1;
  }
  uint32_t GridOf(size_t kernel, int64_t n) const {
    const GridFactor& x = plan_.kernels()[kernel].kernel.grid.front();
    return static_cast<uint32_t>((*x.extent.Evaluate({n}) + x.tile - 1) / x.tile);
  }
};

TEST_F(VariantTest, TheSizesPickTheKernel) {
  ASSERT_EQ(plan_.kernels().size(), 2u);
  EXPECT_THAT(plan_.Explanation(), HasSubstr("for n a multiple of 8: rows are whole vectors"));
  Load();
  ASSERT_NE(GridOf(0, 320), GridOf(1, 320));
  EXPECT_EQ(LaunchedAt(320), 0u);
  EXPECT_EQ(LaunchedAt(321), 1u);
  EXPECT_EQ(LaunchedAt(1000), 0u);
  EXPECT_EQ(LaunchedAt(998), 1u);
  symbols_ = {1008};
  size_t next = 0;
  EXPECT_EQ(bound_->Execute(Whole(), next).message(), "symbol n is 1008: it is 1 to 1000");
}

TEST_F(VariantTest, WithoutAVariantTheWholeRangesKernelDoesItsWork) {
  SetArtifact(1);
  ASSERT_TRUE(bound_->Prepare().ok());
  EXPECT_EQ(LaunchedAt(320), 1u);
}

TEST_F(VariantTest, AReplayIsRefusedOnceAVariantWouldBeLaunched) {
  SetArtifact(1);
  symbols_ = {320};
  Execution captured = Whole();
  captured.kernels_mark = bound_->KernelsMark();
  SetArtifact(0);
  EXPECT_EQ(bound_->CheckReplay(captured, Whole()).message(),
            "kernel " + plan_.kernels()[0].kernel.entry + " was set after the graph was captured");
  symbols_ = {321};  // the whole range's kernel, as before
  EXPECT_TRUE(bound_->CheckReplay(captured, Whole()).ok());
}

TEST_F(VariantTest, AVariantThatNoCompilerCompilesIsDropped) {
  EXPECT_TRUE(absl::IsNotFound(plan_.UseNextCompiler(0, "it crashed")));
  EXPECT_EQ(plan_.StepOf(0), -1);
  EXPECT_EQ(plan_.StepOf(1), 0);
  EXPECT_FALSE(plan_.steps()[0].is_engines);
  auto bound = BoundPlan::Make(plan_, runtime_, 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
  bound_ = *std::move(bound);
  EXPECT_TRUE(absl::IsFailedPrecondition(bound_->SetArtifact(0, nullptr)));
  SetArtifact(1);
  ASSERT_TRUE(bound_->Prepare().ok());
  EXPECT_EQ(LaunchedAt(320), 1u);
}

// A product by Triton whose rows and depth are one symbol: small sizes that are multiples of 8 fit
// two variants.
Segment SquareProduct() {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 1, 1000, 1000);
  const int x = maker.Input({n, n}, DType::kF16);
  maker.Output(maker.Add("MatMul", {x, maker.Input({n, 64}, DType::kF16)}));
  return maker.segment();
}

class ProductVariantTest : public BoundPlanTest {
 protected:
  ProductVariantTest() {
    PlanConfig config{.keeps_small_sections = true};
    config.model.launch_bytes = 0;  // every split pays
    plan_ = *KernelPlan::Make(SquareProduct(), std::move(config),
                              {.target = "cuda:90", .forced = Compiler::kTriton});
    Bind();
    for (size_t number = 0; number < plan_.kernels().size(); ++number) {
      PlannedKernel kernel = plan_.kernels()[number];
      kernel.kernel.entry = std::to_string(number);
      kiln_launch_artifact* const artifact = MadeArtifact(fake_, kernel);
      const absl::Status status = bound_->SetArtifact(number, artifact);
      EXPECT_TRUE(status.ok()) << status;
      kiln_launch_artifact_close(artifact);
    }
    const absl::Status status = bound_->Prepare();
    EXPECT_TRUE(status.ok()) << status;
  }
  // The number of the kernel that is launched at this size.
  std::string LaunchedAt(int64_t n) {
    symbols_ = {n};
    size_t next = 0;
    const absl::Status status = bound_->Execute(Whole(), next);
    return status.ok() ? fake_->launches().back().kernel : std::string(status.message());
  }
};

TEST_F(ProductVariantTest, TheFirstVariantThatFitsIsLaunched) {
  ASSERT_EQ(plan_.kernels().size(), 3u);
  EXPECT_EQ(plan_.kernels()[0].split,
            "n up to 256: smaller tiles; n a multiple of 8: rows are whole vectors");
  EXPECT_EQ(plan_.kernels()[1].split, "n a multiple of 8: rows are whole vectors");
  EXPECT_EQ(LaunchedAt(256), "0") << "both variants fit";
  EXPECT_EQ(LaunchedAt(264), "1");
  EXPECT_EQ(LaunchedAt(255), "2");
  EXPECT_EQ(LaunchedAt(257), "2");
}

}  // namespace
}  // namespace kiln::graph
