// Lets nothing count that was compiled with other files than the fingerprint names.
#pragma once

#include <functional>
#include <memory>

#include "daemon/chain/forwarding_provider.h"
#include "storage/base/mutex.h"

namespace kiln {

// Hears what was changed, and how that shows. Must not block. May be called more than once.
using OnToolchainChange = std::function<void(const Toolchain& toolchain, const absl::Status& why)>;

// Stands in front of the workers of one toolchain. When they have answered, compares the files of
// the toolchain, and of the ptxas that the job names, with those of the fingerprint. Where a file
// was changed, throws the answer away, be it an artifact, a failure or a crash: UNAVAILABLE with a
// retry hint. Then compiles nothing any more: processes that have read some files before the change
// and others after it would mix two compilers. A look before the compile is not needed, since a
// change that was taken back shows too
// (docs/adr/0054-toolchains-are-immutable-while-they-are-served.md).
//
// Otherwise as the next provider. Thread-safe; blocks as ToolchainSeal does, on the thread that
// brings the answer.
class CheckingProvider final : public ForwardingProvider {
 public:
  CheckingProvider(std::shared_ptr<const Toolchain> toolchain,
                   std::unique_ptr<CompilationProvider> next, OnToolchainChange on_change);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

  // Nothing is compiled here any more.
  bool HasChanged() const { return !KnownChange().ok(); }

 private:
  absl::Status KnownChange() const;
  // Checks all files that the job's answer depends on.
  absl::Status Check(const CompileJob& job);
  // UNAVAILABLE where the files are not those of the fingerprint, or that cannot be told.
  absl::Status CheckFiles(const Toolchain& toolchain);

  const std::shared_ptr<const Toolchain> toolchain_;
  const OnToolchainChange on_change_;
  mutable Mutex mutex_;
  absl::Status change_ KILN_GUARDED_BY(mutex_);  // of the toolchain itself; stays
};

}  // namespace kiln
