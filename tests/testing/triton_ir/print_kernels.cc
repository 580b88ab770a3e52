// Prints a line of JSON for each kernel of a segment's plan: its Triton IR and its launch. The
// segment is JSON, on standard input.
//
//   print_kernels cuda:90|hip:gfx942 [fast]
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/graph/emit/triton/triton_emitter.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/segment_json.h"

namespace kiln::graph {
namespace {

void Print(const EmittedKernel& kernel, const LoopProgram& program, const EmitOptions& options) {
  nlohmann::json line = {{"name", kernel.entry},
                         {"text", kernel.text},
                         {"warps", kernel.threads / (options.backend == "hip" ? 64 : 32)},
                         {"buffers", nlohmann::json::array()},
                         {"grid", nlohmann::json::array()}};
  for (const Buffer& buffer : program.buffers) line["buffers"].push_back(buffer.name);
  for (const GridFactor& factor : kernel.grid) {
    line["grid"].push_back({factor.extent.ToString(program.symbols), factor.tile});
  }
  fmt::print("{}\n", line.dump());
}

absl::Status PrintKernels(const std::string& json, const EmitOptions& options) {
  const auto segment = ReadSegment(json);
  if (!segment.ok()) return segment.status();
  const auto plan = MakePlan(*segment, {.keeps_small_sections = true});
  if (!plan.ok()) return plan.status();
  for (const Section& section : plan->sections) {
    const auto programs = LowerSection(*segment, section);
    if (!programs.ok()) return programs.status();
    for (const LoopProgram& program : *programs) {
      const auto kernel = EmitTriton(program, options);
      if (!kernel.ok()) return kernel.status();
      Print(*kernel, program, options);
    }
  }
  return absl::OkStatus();
}

int Main(int count, char** arguments) {
  const std::string_view target = count > 1 ? arguments[1] : "cuda:80";
  const size_t colon = target.find(':');
  const EmitOptions options{.fast_math = count > 2 && std::string_view(arguments[2]) == "fast",
                            .backend = std::string(target.substr(0, colon)),
                            .architecture = std::string(target.substr(colon + 1))};
  const std::string json{std::istreambuf_iterator<char>(std::cin), {}};
  const absl::Status status = PrintKernels(json, options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.ToString());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace kiln::graph

int main(int count, char** arguments) { return kiln::graph::Main(count, arguments); }
