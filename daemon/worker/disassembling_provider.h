// The stage "sass": what a disassembler makes of a cubin.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/compile/compilation_provider.h"
#include "daemon/worker/worker_pool.h"

namespace kiln {

// Asks `next` for everything but the stage "sass", and has that made of the cubin for those who
// want it, each time again: it is a view of bytes that are kept, so it is neither in the key nor
// stored, and no disassembler decides what a compile gives. The answer's provenance names it.
//
// FAILED_PRECONDITION where there is no disassembler, or it does not know what the cubin is for.
// Thread-safe; does not block.
class DisassemblingProvider final : public CompilationProvider {
 public:
  // `pool`, of workers that disassemble: null where no disassembler is here.
  DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                        std::unique_ptr<WorkerPool> pool);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, Priority priority) override;
  std::string Describe() const override;

  WorkerPool* pool() { return pool_.get(); }

 private:
  void Disassemble(CallContext context, CompileResult compiled, CompileDone done);

  const std::unique_ptr<CompilationProvider> next_;
  const std::unique_ptr<WorkerPool> pool_;
};

}  // namespace kiln
