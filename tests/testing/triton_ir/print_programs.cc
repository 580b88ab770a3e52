// Prints a line of JSON for each of the named LoopPrograms, or for all: its Triton IR, and its
// buffers before and after, in hexadecimal digits. Tests in Python run the text and compare.
//
//   print_programs cuda|hip [fast] [NAME…]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "client/graph/emit/triton/triton_emitter.h"
#include "tests/testing/triton_ir/programs.h"

namespace kiln::graph {
namespace {

std::string Hex(const std::vector<uint8_t>& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::Status Print(ProgramCase& one, const EmitOptions& options) {
  absl::StatusOr<EmittedKernel> kernel = EmitTriton(one.program, options);
  if (!kernel.ok()) return kernel.status();
  nlohmann::json line = {{"name", kernel->entry},
                         {"text", kernel->text},
                         {"warps", kernel->threads / (options.backend == "hip" ? 64 : 32)},
                         {"symbols", one.symbols},
                         {"buffers", nlohmann::json::array()},
                         {"grid", nlohmann::json::array()}};
  for (const GridFactor& factor : kernel->grid) {
    line["grid"].push_back((factor.extent.Evaluate(one.symbols).value_or(0) + factor.tile - 1) /
                           factor.tile);
  }
  for (const TestBuffer& buffer : one.buffers) {
    line["buffers"].push_back(
        {{"type", FactsOf(buffer.type()).name}, {"before", Hex(buffer.bytes())}});
  }
  if (absl::Status status = Interpret(one.program, one.symbols, one.buffers); !status.ok())
    return status;
  for (size_t i = 0; i < one.buffers.size(); ++i) {
    line["buffers"][i]["after"] = Hex(one.buffers[i].bytes());
  }
  fmt::print("{}\n", line.dump());
  return absl::OkStatus();
}

int Main(int count, char** arguments) {
  EmitOptions options;
  options.backend = count > 1 ? arguments[1] : "cuda";
  std::set<std::string> names(arguments + std::min(count, 2), arguments + count);
  options.fast_math = names.erase("fast") > 0;
  int failures = 0;
  std::set<std::string> unknown = names;
  for (auto* cases : {&OperatorPrograms, &LoopPrograms, &TiledPrograms}) {
    for (ProgramCase& one : cases()) {
      if (!names.empty() && !names.contains(one.program.name)) continue;
      unknown.erase(one.program.name);
      if (absl::Status status = Print(one, options); !status.ok()) {
        fmt::print(stderr, "{}: {}\n", one.program.name, status.ToString());
        ++failures;
      }
    }
  }
  for (const std::string& name : unknown) fmt::print(stderr, "no program is called {}\n", name);
  return failures == 0 && unknown.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kiln::graph

int main(int count, char** arguments) { return kiln::graph::Main(count, arguments); }
