// The stage "sass": what a disassembler makes of a cubin.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/chain/sass_provider.h"

namespace kiln {

// Asks `next` for everything but the stage "sass", and has that made of the cubin for those who
// want it, each time again: it is a view of bytes that are kept, so it is neither in the key nor
// stored, and no disassembler decides what a compile gives. The answer's provenance names it.
//
// Errors: those of both, and FAILED_PRECONDITION where there is no disassembler, before anything is
// compiled in vain. Thread-safe; blocks as they do.
class DisassemblingProvider final : public CompilationProvider {
 public:
  // `find` gives the one to use now; it does not block. `disassembler` is SassProvider, behind what
  // lets it in: it takes the processor as a compile does, for whoever sent the cubin's source.
  DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                        std::function<Disassembler()> find,
                        std::unique_ptr<CompilationProvider> disassembler);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;
  std::string Describe() const override;

 private:
  void Disassemble(const Disassembler& disassembler, CallContext context, CompileResult compiled,
                   CompileDone done);

  const std::unique_ptr<CompilationProvider> next_;
  const std::function<Disassembler()> find_;
  const std::unique_ptr<CompilationProvider> disassembler_;
};

}  // namespace kiln
