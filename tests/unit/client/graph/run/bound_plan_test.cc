// A bound plan over the CUDA driver's stand-in.
#include "client/graph/run/bound_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "tests/unit/client/graph/run/bound_plan_fixture.h"

namespace {

thread_local int allocations = 0;
// Whether they count: those of the driver's stand-in, which remembers launches, do not.
thread_local bool counts = true;

}  // namespace

void* operator new(size_t bytes) {
  if (counts) ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kiln::graph {
namespace {

using testing::HasSubstr;

TEST_F(BoundPlanTest, AStepOfTheEnginesEndsTheRunAndIsTold) {
  Load();
  Execution execution = Whole();
  size_t next = 0;
  ASSERT_TRUE(bound_->Execute(execution, next).ok());
  EXPECT_EQ(next, 3u);
  EXPECT_TRUE(plan_.steps()[3].is_engines);
  EXPECT_EQ(fake_->launches().size(), 3u);
  execution.first_step = 3;
  ASSERT_TRUE(bound_->Execute(execution, next).ok());
  EXPECT_EQ(next, 3u) << "nothing to launch before it";
  execution.first_step = 4;
  ASSERT_TRUE(bound_->Execute(execution, next).ok());
  EXPECT_EQ(next, 5u);
  EXPECT_EQ(fake_->launches().size(), 4u);
}

TEST_F(BoundPlanTest, KernelsGetAddressesSymbolsAndAGridThatCoversThem) {
  Load();
  size_t next = 0;
  ASSERT_TRUE(bound_->Execute(Whole(), next).ok());
  const std::vector<FakeLaunch> launches = fake_->launches();
  ASSERT_EQ(launches.size(), 3u);
  ASSERT_EQ(launches[0].arguments.size(), 3u);
  EXPECT_EQ(Word(launches[0].arguments[0]), buffers_[BufferNumber("v0")]);
  EXPECT_EQ(Word(launches[0].arguments[1]), 0x900'0000u);
  EXPECT_EQ(Word(launches[0].arguments[2]), 10u);
  EXPECT_EQ(Word(launches[1].arguments[0]), 0x900'0000u);
  EXPECT_EQ(Word(launches[1].arguments[1]), 0x900'0000u + 1280) << "behind 10 * 32 * 4 bytes";
  EXPECT_EQ(Word(launches[2].arguments[1]), buffers_[BufferNumber("v3")]);
  const GridFactor& x = plan_.kernels()[0].kernel.grid.front();
  const auto extent = static_cast<uint32_t>(*x.extent.Evaluate({10}));
  EXPECT_EQ(launches[0].grid[0], (extent + x.tile - 1) / x.tile);
  EXPECT_EQ(launches[0].block[0], static_cast<unsigned>(plan_.kernels()[0].kernel.threads));
}

TEST_F(BoundPlanTest, NothingIsLaunchedForNoElements) {
  Load();
  symbols_ = {0};
  buffers_.assign(buffers_.size(), 0);
  Execution execution = Whole();
  execution.workspace = 0;
  size_t next = 0;
  const absl::Status status = bound_->Execute(execution, next);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(next, 3u);
  EXPECT_TRUE(fake_->launches().empty());
}

TEST_F(BoundPlanTest, ExecuteAllocatesNothing) {
  Load();
  size_t next = 0;
  const Execution execution = Whole();
  ASSERT_TRUE(bound_->Execute(execution, next).ok());
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.enter_hook = [](void*, const kiln_launch_event*) { counts = false; };
  settings.exit_hook = [](void*, const kiln_launch_event*) { counts = true; };
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  const int before = allocations;
  static_cast<void>(bound_->WorkspaceBytes(symbols_));
  EXPECT_EQ(allocations, before);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bound_->Execute(execution, next).ok());
  EXPECT_EQ(allocations, before);
}

TEST_F(BoundPlanTest, AReplayWithOtherBuffersOrSizesIsRefusedByName) {
  Load();
  const std::vector<uint64_t> captured_buffers = buffers_;
  const std::vector<int64_t> captured_symbols = symbols_;
  Execution captured = Whole();
  captured.buffers = captured_buffers;
  captured.symbols = captured_symbols;
  captured.steps = 3;  // up to the softmax, which the engine keeps
  EXPECT_TRUE(bound_->CheckReplay(captured, Whole()).ok());
  Execution moved = Whole();
  moved.workspace += 256;
  EXPECT_THAT(bound_->CheckReplay(captured, moved).message(), HasSubstr("the workspace is at 0x"));
  buffers_[BufferNumber("v5")] += 64;  // written behind the softmax
  EXPECT_TRUE(bound_->CheckReplay(captured, Whole()).ok());
  captured.steps = 0;
  EXPECT_THAT(bound_->CheckReplay(captured, Whole()).message(), HasSubstr("buffer v5 is at 0x"));
  buffers_ = captured_buffers;
  buffers_[BufferNumber("v0")] = 0xab'0000;
  EXPECT_EQ(bound_->CheckReplay(captured, Whole()).message(),
            "buffer v0 is at 0xab0000: the graph has captured 0x100000");
  symbols_ = {11};
  EXPECT_EQ(bound_->CheckReplay(captured, Whole()).message(),
            "symbol n is 11: the graph has captured 10");
  buffers_.pop_back();
  EXPECT_THAT(bound_->CheckReplay(captured, Whole()).message(),
              HasSubstr("addresses are given, there are"));
}

TEST_F(BoundPlanTest, AReplayOfOtherStepsIsRefusedByName) {
  Load();
  const std::string third = plan_.kernels()[2].kernel.entry;
  Execution captured = Whole();
  captured.steps = 2;
  EXPECT_EQ(bound_->CheckReplay(captured, Whole()).message(),
            "step 2 (kernel " + third + ") is to be launched: the graph has not captured it");
  Execution wanted = Whole();
  wanted.steps = 2;
  EXPECT_TRUE(bound_->CheckReplay(captured, wanted).ok());
  captured.steps = 3;
  EXPECT_EQ(bound_->CheckReplay(captured, wanted).message(),
            "step 2 (kernel " + third + ") is not asked for: the graph has captured it");
  wanted.first_step = 1;
  EXPECT_THAT(bound_->CheckReplay(captured, wanted).message(), HasSubstr("step 0 (kernel "));
}

TEST_F(BoundPlanTest, AReplayOfAKernelThatWasSetAnewIsRefusedByName) {
  Load();
  Execution captured = Whole();
  captured.steps = 2;
  captured.kernels_mark = bound_->KernelsMark();
  const Execution wanted = captured;
  SetArtifact(2);  // of another step
  EXPECT_TRUE(bound_->CheckReplay(captured, wanted).ok());
  SetArtifact(1);
  EXPECT_EQ(bound_->CheckReplay(captured, wanted).message(),
            "kernel " + plan_.kernels()[1].kernel.entry + " was set after the graph was captured");
}

TEST_F(BoundPlanTest, AReplayOfAnotherBoundPlansKernelsIsRefusedByName) {
  Load();
  const uint64_t before = bound_->KernelsMark();
  Bind();  // as after a compile that failed and another compiler's kernels
  Load();
  for (const uint64_t mark : {before, bound_->KernelsMark() + (uint64_t{1} << 32)}) {
    Execution captured = Whole();
    captured.kernels_mark = mark;
    EXPECT_EQ(bound_->CheckReplay(captured, Whole()).message(),
              "kernel " + plan_.kernels()[0].kernel.entry +
                  ": the graph has captured that of another bound plan");
  }
}

TEST_F(BoundPlanTest, AStreamCapturesIt) {
  Load();
  void* const stream = &symbols_;
  Execution execution = Whole();
  execution.stream = stream;
  fake_->BeginCapture(stream);
  size_t next = 0;
  const absl::Status status = bound_->Execute(execution, next);
  EXPECT_TRUE(status.ok()) << status;
  void* const graph = fake_->EndCapture(stream);
  ASSERT_NE(graph, nullptr) << "something ended the capture";
  EXPECT_TRUE(fake_->IsRunnable(graph));
  EXPECT_EQ(fake_->ended_captures(), 0);
  fake_->DestroyGraph(graph);
}

TEST_F(BoundPlanTest, WrongSymbolsAreRefusedByName) {
  Load();
  symbols_ = {1001};
  EXPECT_EQ(Refusal(Whole()), "symbol n is 1001: it is 0 to 1000");
  EXPECT_FALSE(bound_->WorkspaceBytes(symbols_).ok());
  EXPECT_FALSE(bound_->BufferBytes(0, symbols_).ok());
}

TEST_F(BoundPlanTest, WrongBuffersAreRefusedByName) {
  Load();
  const size_t x = BufferNumber("v0");
  const size_t y = BufferNumber("v3");
  const std::vector<uint64_t> right = buffers_;
  buffers_[x] = 0;
  EXPECT_EQ(Refusal(Whole()), "buffer v0 has no address");
  buffers_[x] = right[x] + 4;
  EXPECT_THAT(Refusal(Whole()), HasSubstr("buffer v0 is at 0x"));
  EXPECT_THAT(Refusal(Whole()), HasSubstr("which is no multiple of 16"));
  buffers_[x] = right[y] + 16;
  EXPECT_EQ(Refusal(Whole()), "buffer v3 is written and overlaps buffer v0");
  buffers_[x] = right[y] - 1280 + 16;
  EXPECT_EQ(Refusal(Whole()), "buffer v3 is written and overlaps buffer v0");
  buffers_ = right;
  buffers_[y] = 0x900'0000;
  EXPECT_EQ(Refusal(Whole()), "buffer v3 is written and overlaps the workspace");
  buffers_.pop_back();
  EXPECT_THAT(Refusal(Whole()), HasSubstr("addresses are given, there are"));
}

TEST_F(BoundPlanTest, NeighboursDoNotOverlap) {
  Load();
  buffers_[BufferNumber("v0")] = buffers_[BufferNumber("v3")] - 1280;
  size_t next = 0;
  EXPECT_TRUE(bound_->Execute(Whole(), next).ok());
}

TEST_F(BoundPlanTest, AWorkspaceThatIsMissingOrSmallIsRefused) {
  Load();
  ASSERT_EQ(*bound_->WorkspaceBytes(symbols_), 2560u);
  Execution execution = Whole();
  execution.workspace_bytes = 2559;
  EXPECT_EQ(Refusal(execution), "the workspace has 2559 bytes, 2560 are needed");
  execution.workspace = 0;
  EXPECT_EQ(Refusal(execution), "the workspace has 0 bytes, 2560 are needed");
  execution = Whole();
  execution.workspace += 8;
  EXPECT_THAT(Refusal(execution), HasSubstr("which is no multiple of 16"));
}

// Two kernels: the second one has 2^27 times as many positions.
Segment Growing() {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 0, 1 << 20, 64);
  const int x = maker.Input({n});
  const int y = maker.Input({n, 1 << 27});
  maker.Output(maker.Add("Relu", {x}));
  maker.Output(maker.Add("Exp", {y}));
  return maker.segment();
}

class GrowingPlanTest : public BoundPlanTest {
 protected:
  GrowingPlanTest() : BoundPlanTest(Growing()) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i] = (i + 1) << 52;
  }
};

TEST_F(GrowingPlanTest, AGridThatNoDeviceHasIsRefusedBeforeTheFirstLaunch) {
  Load();
  symbols_ = {1 << 20};
  EXPECT_EQ(Refusal(Whole()),
            "kernel kiln_exp: its grid has at most 2147483647 blocks along x, 134217728*n "
            "positions take more");
}

TEST_F(BoundPlanTest, KernelsWithoutArtifactsAreNamed) {
  SetArtifact(0);
  EXPECT_THAT(Refusal(Whole()), HasSubstr("kernel 1 (kiln_sqrt) has no artifact"));
  const absl::Status status = bound_->Prepare();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(BoundPlanTest, AKernelsTimesAreRead) {
  Load();
  kiln_launch_settings settings{};
  settings.size = sizeof settings;
  settings.times_launches = 1;
  ASSERT_EQ(kiln_launch_configure(runtime_, &settings), KILN_LAUNCH_OK);
  size_t next = 0;
  ASSERT_TRUE(bound_->Execute(Whole(), next).ok());
  const auto kernel = bound_->KernelAt(1);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  kiln_launch_times times{};
  times.size = sizeof times;
  ASSERT_EQ(kiln_launch_kernel_get_times(*kernel, 0, &times), KILN_LAUNCH_OK)
      << kiln_launch_error();
  EXPECT_EQ(times.launches, 1u);
  EXPECT_FALSE(bound_->KernelAt(99).ok());
}

TEST_F(BoundPlanTest, WhatTheDriverSaysIsPassedOn) {
  Load();
  fake_->Fail("cuLaunchKernelEx", 1);
  size_t next = 0;
  const absl::Status status = bound_->Execute(Whole(), next);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("kiln_relu"));
}

TEST_F(BoundPlanTest, ThreadsExecuteOnePlanAtOnce) {
  Load();
  std::vector<std::thread> threads;
  for (int64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([this, i] {
      const std::vector<int64_t> symbols = {i * 100};
      Execution execution = Whole();
      execution.symbols = symbols;
      size_t next = 0;
      for (int round = 0; round < 50; ++round) {
        const absl::Status status = bound_->Execute(execution, next);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const FakeLaunch& launch : fake_->launches()) {
    const uint64_t n = Word(launch.arguments.back());
    if (launch.kernel == "kiln_sqrt") {
      EXPECT_EQ(Word(launch.arguments[1]), 0x900'0000 + (n * 128 + 255) / 256 * 256);
    }
  }
}

TEST(KernelPlanTest, PlansShareTheBytesOfConstants) {
  SegmentMaker maker;
  const int sizes = maker.Integers({8, 8});
  maker.Output(maker.Add("Expand", {maker.Input({8}), sizes}));
  const auto plan = KernelPlan::Make(maker.segment(), {.keeps_small_sections = true},
                                     {.target = "cuda:90", .forced = Compiler::kCuda});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->segment().values[0].bytes->data(), maker.segment().values[0].bytes->data());
}

TEST_F(BoundPlanTest, KernelsThatTheDeviceDoesNotTakeAreTold) {
  constexpr int kInvalidImage = 200;
  for (const size_t number : {0, 1, 2, 3}) SetArtifact(number);
  fake_->Fail("cuLibraryLoadData", kInvalidImage, 2);
  const absl::Status prepared = bound_->Prepare();
  EXPECT_TRUE(absl::IsDataLoss(prepared)) << prepared;
  const auto failures = bound_->LoadFailures();
  ASSERT_EQ(failures.size(), 2u) << "those behind it are loaded all the same";
  EXPECT_EQ(failures[0].kernel, 0u);
  EXPECT_EQ(failures[1].kernel, 1u);
  EXPECT_EQ(failures[0].why, prepared);
  ASSERT_TRUE(bound_->Prepare().ok());
  EXPECT_TRUE(bound_->LoadFailures().empty());
}

TEST_F(BoundPlanTest, WhereTheDriverHasNoMemoryNoKernelIsToBlame) {
  constexpr int kOutOfMemory = 2;
  for (const size_t number : {0, 1, 2, 3}) SetArtifact(number);
  fake_->Fail("cuLibraryLoadData", kOutOfMemory, 100);
  EXPECT_TRUE(absl::IsResourceExhausted(bound_->Prepare()));
  EXPECT_TRUE(bound_->LoadFailures().empty());
}

TEST_F(BoundPlanTest, WithoutAnArtifactNoKernelIsToBlame) {
  EXPECT_TRUE(absl::IsFailedPrecondition(bound_->Prepare()));
  EXPECT_TRUE(bound_->LoadFailures().empty());
}

TEST(KernelPlanTest, ASectionWithoutACompilerLeftIsTheEngines) {
  SegmentMaker maker;
  const int x = maker.Input({64, 64});
  maker.Output(maker.Add("Relu", {maker.Add("MatMul", {x, x})}));
  auto plan =
      KernelPlan::Make(maker.segment(), {.keeps_small_sections = true},
                       {.target = "cuda:90", .available = {Compiler::kTriton, Compiler::kCuda}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->kernels().size(), 1u);
  const Compiler first = plan->kernels()[0].compiler;
  ASSERT_TRUE(plan->UseNextCompiler(0, "it crashed").ok());
  EXPECT_NE(plan->kernels()[0].compiler, first);
  EXPECT_EQ(plan->StepOf(0), 0);
  EXPECT_TRUE(absl::IsNotFound(plan->UseNextCompiler(0, "it crashed, too")));
  EXPECT_EQ(plan->StepOf(0), -1);
  ASSERT_EQ(plan->steps().size(), 2u) << "MatMul and Relu";
  EXPECT_TRUE(plan->steps()[0].is_engines && plan->steps()[1].is_engines);
  EXPECT_THAT(plan->steps()[0].reason, HasSubstr("it crashed, too"));
  EXPECT_TRUE(absl::IsNotFound(plan->UseNextCompiler(0, "again")));
  EXPECT_TRUE(MemoryLayout::Make(*plan)->buffers().empty());
}

}  // namespace
}  // namespace kiln::graph
