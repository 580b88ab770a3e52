// Cubin to "sass", the text of its machine code.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/kernel/toolchain_change.h"
#include "daemon/pool/worker_pool.h"

namespace kiln {

// An nvdisasm, and the workers that run it.
struct Disassembler {
  std::shared_ptr<const Toolchain> toolchain;
  std::shared_ptr<WorkerPool> pool;  // null: none is here
};

// FAILED_PRECONDITION, with what to install.
absl::Status NoDisassembler();

// A leaf. The source of its jobs is a cubin, which no client can send; it answers with an artifact
// that has the stage "sass", how long that took, and the disassembler's name as its assembler.
//
// FAILED_PRECONDITION where there is no disassembler, or it does not know what the cubin is for;
// UNAVAILABLE with a retry hint where its file was changed meanwhile. Thread-safe; blocks only as
// CheckUnchanged does, on the thread that brings the answer.
class SassProvider final : public CompilationProvider {
 public:
  // `find` gives the one to use now; it does not block.
  SassProvider(std::function<Disassembler()> find, OnToolchainChange on_change)
      : find_(std::move(find)), on_change_(std::move(on_change)) {}

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  std::string Describe() const override { return "sass"; }

 private:
  const std::function<Disassembler()> find_;
  const OnToolchainChange on_change_;
};

}  // namespace kiln
