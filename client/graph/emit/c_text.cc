#include "client/graph/emit/c_text.h"

#include <fmt/format.h>

#include "client/graph/emit/c_printer.h"
#include "client/graph/program/opcode.h"

namespace kiln::graph {

absl::Status CheckC(const LoopProgram& program) {
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  for (const Instruction& instruction : program.instructions) {
    if (FactsOf(instruction.type).bits >= 8) continue;
    return absl::UnimplementedError(fmt::format(
        "C: {} of type {}", FactsOf(instruction.opcode).name, FactsOf(instruction.type).name));
  }
  return absl::OkStatus();
}

absl::StatusOr<EmittedKernel> EmitC(const LoopProgram& program, const CDialect& dialect,
                                    const EmitOptions& options) {
  if (absl::Status status = CheckC(program); !status.ok()) return status;
  return CPrinter(program, dialect, options).Print();
}

}  // namespace kiln::graph
