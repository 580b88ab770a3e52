// The stage "sass": what a disassembler makes of a cubin.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/compile/compilation_provider.h"
#include "daemon/compile/toolchain_change.h"
#include "daemon/worker/worker_pool.h"

namespace kiln {

// An nvdisasm, and the workers that run it.
struct Disassembler {
  std::shared_ptr<const Toolchain> toolchain;
  std::shared_ptr<WorkerPool> pool;  // null: none is here
};

// Asks `next` for everything but the stage "sass", and has that made of the cubin for those who
// want it, each time again: it is a view of bytes that are kept, so it is neither in the key nor
// stored, and no disassembler decides what a compile gives. The answer's provenance names it.
//
// FAILED_PRECONDITION where there is no disassembler, or it does not know what the cubin is for;
// UNAVAILABLE with a retry hint where its file was changed meanwhile. Thread-safe; blocks only as
// CheckUnchanged does, on the thread that brings the answer.
class DisassemblingProvider final : public CompilationProvider {
 public:
  // `find` gives the one to use now; it does not block.
  DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                        std::function<Disassembler()> find, OnToolchainChange on_change);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;
  std::string Describe() const override;

 private:
  void Disassemble(const Disassembler& disassembler, CallContext context, CompileResult compiled,
                   CompileDone done);

  const std::unique_ptr<CompilationProvider> next_;
  const std::function<Disassembler()> find_;
  const OnToolchainChange on_change_;
};

}  // namespace kiln
