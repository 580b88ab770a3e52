// graph_benchmark: prints JSON, {"plan_us": [..], "texts_us": [..], "ptx_us": [..]}: choosing the
// sections of 1,000 operations; all of a plan of them for a GPU, with the texts of its kernels; and
// the PTX of one elementwise kernel. Processor time: nothing waits, and other processes do not
// count.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/graph/compile/planned_kernels.h"
#include "client/graph/emit/ptx.h"
#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"

namespace kiln::graph {
namespace {

constexpr int kOperations = 1'000;
constexpr int kRuns = 15;

// Layers of a product, a bias, an activation, a residual and a normalization: 200 of five
// operations.
Segment Layers() {
  SegmentMaker maker("layers");
  const Size batch = maker.Symbol("batch", 1, 4096, 512);
  int x = maker.Input({batch, 1024});
  const int weights = maker.Input({1024, 1024});
  const int bias = maker.Input({1024});
  for (int layer = 0; layer < kOperations / 5; ++layer) {
    const int product = maker.Add("Add", {maker.Add("MatMul", {x, weights}), bias});
    x = maker.Add("Softmax", {maker.Add("Add", {maker.Add("Gelu", {product}), x})});
  }
  maker.Output(x);
  return std::move(maker.segment());
}

double ProcessorMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

std::vector<double> Microseconds(int calls, const std::function<bool()>& call) {
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    const double begin = ProcessorMicroseconds();
    for (int i = 0; i < calls; ++i) {
      if (!call()) std::exit(1);
    }
    runs.push_back((ProcessorMicroseconds() - begin) / calls);
  }
  return runs;
}

int Main() {
  const Segment segment = Layers();
  const Plan plan = MakePlan(segment, {}).value();
  const auto planned = Microseconds(1, [&] { return MakePlan(segment, {}).ok(); });
  const auto texts = Microseconds(1, [&] {
    Plan whole = MakePlan(segment, {}).value();
    return KernelsOf(segment, whole, {.target = "cuda:90"}, {}).ok();
  });
  SegmentMaker maker;
  maker.Output(
      maker.Add("Relu", {maker.Add("Add", {maker.Input({1 << 20}), maker.Input({1 << 20})})}));
  const Plan chain = MakePlan(maker.segment(), {.keeps_small_sections = true}).value();
  const LoopProgram program = LowerSection(maker.segment(), chain.sections.at(0)).value().at(0);
  const auto emitted = Microseconds(1'000, [&] { return EmitPtx(program, {}).ok(); });
  std::cout << nlohmann::json{{"plan_us", planned},
                              {"texts_us", texts},
                              {"ptx_us", emitted},
                              {"operations", segment.operations.size()},
                              {"sections", plan.sections.size()}}
            << '\n';
  return 0;
}

}  // namespace
}  // namespace kiln::graph

int main() { return kiln::graph::Main(); }
