// emit_cases LANGUAGE [fast]: prints the cases of program_cases.h that cuda, opencl or ptx has, for
// tests that compile and run them: a JSON list of {"entry", "text", "threads", "blocks", "symbols",
// "buffers"}; of each buffer its type, and its bytes before and after in hexadecimal.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "client/graph/emit/cuda.h"
#include "client/graph/emit/opencl.h"
#include "client/graph/emit/ptx.h"
#include "tests/testing/graph/host_kernels.h"
#include "tests/testing/graph/program_cases.h"

namespace kiln::graph {
namespace {

std::string Hex(const TestBuffer& buffer) {
  std::string text;
  for (const uint8_t byte : buffer.bytes()) text += fmt::format("{:02x}", byte);
  return text;
}

nlohmann::json Described(const ProgramCase& test, const EmittedKernel& kernel, size_t number) {
  const auto after = Expected(test);
  nlohmann::json buffers = nlohmann::json::array();
  for (size_t i = 0; i < test.buffers.size(); ++i) {
    buffers.push_back({{"type", FactsOf(test.buffers[i].type()).name},
                       {"before", Hex(test.buffers[i])},
                       {"after", Hex(after->at(i))}});
  }
  const GridFactor& grid = kernel.grid[0];
  const int64_t positions = grid.extent.Evaluate(test.symbols).value_or(0);
  return {{"entry", kernel.entry},     {"text", WithOwnFunctions(kernel, number)},
          {"threads", kernel.threads}, {"blocks", (positions + grid.tile - 1) / grid.tile},
          {"symbols", test.symbols},   {"buffers", buffers}};
}

int Main(std::string_view language, bool fast_math) {
  const EmitOptions options{.fast_math = fast_math};
  nlohmann::json all = nlohmann::json::array();
  for (const auto& cases : {OpcodeCases(), ReductionCases(), ComposedCases(), RowCases()}) {
    for (const ProgramCase& test : cases) {
      const auto kernel = language == "cuda"  ? EmitCuda(test.program, options)
                          : language == "ptx" ? EmitPtx(test.program, options)
                                              : EmitOpenCl(test.program, options);
      if (kernel.ok()) {
        all.push_back(Described(test, *kernel, all.size()));
      } else if (language != "ptx" || !absl::IsUnimplemented(kernel.status())) {
        std::fprintf(stderr, "%s: %s\n", test.program.name.c_str(),
                     std::string(kernel.status().message()).c_str());
        return 1;
      }
    }
  }
  std::puts(all.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace kiln::graph

int main(int argc, char** argv) {
  return kiln::graph::Main(argc > 1 ? argv[1] : "", argc > 2 && std::string(argv[2]) == "fast");
}
