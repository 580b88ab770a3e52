#include "client/graph/emit/c_text.h"

#include "client/graph/emit/c_printer.h"

namespace kiln::graph {

absl::Status CheckC(const LoopProgram& program) {
  if (const std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  return absl::OkStatus();
}

absl::StatusOr<EmittedKernel> EmitC(const LoopProgram& program, const CDialect& dialect,
                                    const EmitOptions& options) {
  if (absl::Status status = CheckC(program); !status.ok()) return status;
  return CPrinter(program, dialect, options).Print();
}

}  // namespace kiln::graph
