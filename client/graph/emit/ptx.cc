#include "client/graph/emit/ptx.h"

#include "client/graph/emit/ptx_printer.h"

namespace kiln::graph {

absl::StatusOr<EmittedKernel> EmitPtx(const LoopProgram& program, const EmitOptions& options) {
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  for (const Axis& axis : program.axes) {
    if (axis.is_inner) return MissingInPtx("an inner axis");
  }
  return PtxPrinter(program, options).Print();
}

}  // namespace kiln::graph
