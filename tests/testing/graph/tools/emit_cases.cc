// emit_cases LANGUAGE [fast]: prints the cases of program_cases.h that cuda, opencl or ptx has, for
// tests that compile and run them: a JSON list of {"entry", "text", "threads", "blocks", "symbols",
// "buffers"}; of each buffer its type, and its bytes before and after in hexadecimal. emit_cases
// LANGUAGE list: a JSON list of {"entry", "has_approximations"}: whether fast math changes the
// text.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "client/graph/emit/cuda.h"
#include "client/graph/emit/opencl.h"
#include "client/graph/emit/ptx.h"
#include "tests/testing/graph/host_kernels.h"
#include "tests/testing/graph/program_cases.h"

namespace kiln::graph {
namespace {

std::string Hex(const TestBuffer& buffer) {
  const auto& bytes = buffer.bytes();
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
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

absl::StatusOr<EmittedKernel> Emit(std::string_view language, const LoopProgram& program,
                                   bool fast_math) {
  const EmitOptions options{.fast_math = fast_math};
  if (language == "cuda") return EmitCuda(program, options);
  return language == "ptx" ? EmitPtx(program, options) : EmitOpenCl(program, options);
}

int Main(std::string_view language, std::string_view mode) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& cases : {OpcodeCases(), ReductionCases(), ComposedCases(), RowCases()}) {
    for (const ProgramCase& test : cases) {
      const auto kernel = Emit(language, test.program, mode == "fast");
      if (kernel.ok() && mode == "list") {
        const auto fast = Emit(language, test.program, true);
        const bool is_changed = !fast.ok() || fast->text != kernel->text;
        all.push_back({{"entry", kernel->entry}, {"has_approximations", is_changed}});
      } else if (kernel.ok()) {
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
  return kiln::graph::Main(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
