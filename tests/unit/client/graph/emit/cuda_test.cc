#include "client/graph/emit/cuda.h"

#include <gmock/gmock.h>

#include "client/graph/program/program_builder.h"
#include "tests/testing/graph/host_kernels.h"
#include "tests/testing/graph/program_cases.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;

std::vector<ProgramCase> AllCases() {
  std::vector<ProgramCase> all = OpcodeCases();
  for (auto more : {ReductionCases(), ComposedCases(), RowCases()}) {
    for (ProgramCase& test : more) all.push_back(std::move(test));
  }
  return all;
}

// Runs the text of every case on the host, all from one library.
TEST(CudaTest, KernelsComputeWhatTheInterpreterDoes) {
  const std::vector<ProgramCase> cases = AllCases();
  std::vector<EmittedKernel> kernels;
  for (const ProgramCase& test : cases) {
    auto kernel = EmitCuda(test.program, {});
    ASSERT_TRUE(kernel.ok()) << test.program.name << ": " << kernel.status();
    kernels.push_back(*std::move(kernel));
  }
  HostKernels host;
  ASSERT_TRUE(host.Build(kernels).ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto expected = Expected(cases[i]);
    ASSERT_TRUE(expected.ok()) << cases[i].program.name << ": " << expected.status();
    std::vector<TestBuffer> buffers = cases[i].buffers;
    host.Run(kernels[i], cases[i].symbols, buffers);
    for (size_t j = 0; j < buffers.size(); ++j) {
      EXPECT_EQ(Difference((*expected)[j], buffers[j]), "")
          << cases[i].program.name << ", buffer " << cases[i].program.buffers[j].name << "\n"
          << kernels[i].text;
    }
  }
}

TEST(CudaDeathTest, ABarrierThatSomeThreadsNeverComeToEndsTheTest) {
  const EmittedKernel kernel{
      .text = "__global__ void divergent() { if (threadIdx.x >= 2) __syncthreads(); }",
      .entry = "divergent",
      .threads = 8,
      .grid = {{1, 1}}};
  HostKernels host;
  ASSERT_TRUE(host.Build({kernel}).ok());
  std::vector<TestBuffer> none;
  EXPECT_DEATH(host.Run(kernel, {}, none), "2 of 8 threads never come to a barrier");
}

TEST(CudaTest, RefusesToReadABufferAgainThatALoopHasWritten) {
  ProgramBuilder make("reversal");
  const int x = make.AddOutput("x", DType::kI32);
  const int axis = make.AddInnerAxis(8);
  const int at = make.AxisAt(axis);
  make.Store(x, make.Binary(Opcode::kSubtract, make.SizeOf(7), at), make.Load(x, at));
  const auto kernel = EmitCuda(std::move(make).Finish(), {});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("buffer x"));
}

TEST(CudaTest, ComputesIndependentReductionsInOneLoop) {
  for (const ProgramCase& test : ComposedCases()) {
    if (test.program.name != "normalization") continue;
    const std::string text = EmitCuda(test.program, {})->text;
    int loops = 0;
    for (size_t at = text.find("for ("); at != std::string::npos; at = text.find("for (", at + 1)) {
      ++loops;
    }
    EXPECT_EQ(loops, 2) << text;  // one for both sums, one for the stores
  }
}

}  // namespace
}  // namespace kiln::graph
