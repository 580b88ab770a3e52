// Keeps what crashes compilers away from them.
#pragma once

#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/policy/quarantine.h"

namespace kiln {

// Puts a key into quarantine when the next provider says that its source crashed every worker that
// tried it, or that nothing could be decided of it however often it was tried (a compiler that was
// ended by the machine, for want of memory). Until its time is over, or an operator lifts it, the
// key is answered with INTERNAL, what happened, and a hint when to try again.
//
// Only compiles are kept away: behind caching, so that what is stored is still served.
//
// Errors: that one; otherwise the next provider's. Thread-safe; does not block. The quarantine
// outlives it.
class QuarantiningProvider final : public CompilationProvider {
 public:
  QuarantiningProvider(std::unique_ptr<CompilationProvider> next, Quarantine& quarantine)
      : next_(std::move(next)), quarantine_(quarantine) {}

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override { next_->Raise(key, waiter); }
  std::string Describe() const override { return "quarantining(" + next_->Describe() + ")"; }

 private:
  void Judge(const CompileJobPtr& job, const absl::StatusOr<CompileResult>& result);

  const std::unique_ptr<CompilationProvider> next_;
  Quarantine& quarantine_;
};

}  // namespace kiln
