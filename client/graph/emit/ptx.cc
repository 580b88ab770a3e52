#include "client/graph/emit/ptx.h"

#include "client/graph/emit/ptx_printer.h"
#include "client/graph/program/opcode.h"

namespace kiln::graph {

absl::StatusOr<EmittedKernel> EmitPtx(const LoopProgram& program, const EmitOptions& options) {
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  for (const Axis& axis : program.axes) {
    if (axis.is_inner) return MissingInPtx("an inner axis");
  }
  for (const Instruction& instruction : program.instructions) {
    if (FactsOf(instruction.type).bits >= 8) continue;
    return MissingInPtx(fmt::format("{} of type {}", FactsOf(instruction.opcode).name,
                                    FactsOf(instruction.type).name));
  }
  return PtxPrinter(program, options).Print();
}

}  // namespace kiln::graph
