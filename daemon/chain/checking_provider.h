// Lets nothing count that was compiled with other files than the fingerprint names.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/kernel/toolchain_change.h"

namespace kiln {

// Stands in front of the workers of one toolchain. When they have answered, it looks at the files
// of the toolchain, and of the ptxas that the job names: only where nothing was done to them since
// their fingerprint was taken does the answer count, be it an artifact, a failure or a crash.
// Otherwise it is UNAVAILABLE with a retry hint, and nothing is compiled here any more: processes
// that have read some of the files before and read others after would mix two compilers. Looking
// afterwards is enough, since what was changed and changed back shows as well
// (docs/adr/0024-a-toolchain-that-changes-is-another-one.md).
//
// Otherwise as the next provider. Thread-safe; blocks as ToolchainSeal does, on the thread that
// brings the answer.
class CheckingProvider final : public CompilationProvider {
 public:
  CheckingProvider(std::shared_ptr<const Toolchain> toolchain,
                   std::unique_ptr<CompilationProvider> next, OnToolchainChange on_change);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override { next_->Raise(key, waiter); }
  std::string Describe() const override { return "checking(" + next_->Describe() + ")"; }

  // Nothing is compiled here any more.
  bool HasChanged() const { return !KnownChange().ok(); }

 private:
  absl::Status KnownChange() const;
  // Of all files that the job's answer depends on.
  absl::Status Check(const CompileJob& job);

  const std::shared_ptr<const Toolchain> toolchain_;
  const std::unique_ptr<CompilationProvider> next_;
  const OnToolchainChange on_change_;
  mutable std::mutex mutex_;
  absl::Status change_;  // of the toolchain itself; stays
};

}  // namespace kiln
