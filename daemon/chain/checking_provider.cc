#include "daemon/chain/checking_provider.h"

#include <utility>

namespace kiln {
namespace {

// Nobody waits for such an answer, and such an answer says nothing of the kernel.
bool SaysNothing(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

CheckingProvider::CheckingProvider(std::shared_ptr<const Toolchain> toolchain,
                                   std::unique_ptr<CompilationProvider> next,
                                   OnToolchainChange on_change)
    : ForwardingProvider("checking", std::move(next)),
      toolchain_(std::move(toolchain)),
      on_change_(std::move(on_change)) {}

void CheckingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (const absl::Status change = KnownChange(); !change.ok()) return done(change);
  next().Compile(std::move(context), job,
                 [this, job, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   if (SaysNothing(result.status())) return done(std::move(result));
                   const absl::Status same = Check(*job);
                   if (!same.ok()) return done(same);
                   done(std::move(result));
                 });
}

absl::Status CheckingProvider::KnownChange() const {
  const MutexLock lock(mutex_);
  return change_;
}

absl::Status CheckingProvider::Check(const CompileJob& job) {
  const ToolchainCheck own = CheckUnchanged(*toolchain_, on_change_);
  if (own.is_changed) {
    const MutexLock lock(mutex_);
    change_ = own.status;
  }
  if (!own.status.ok() || job.ptxas == nullptr) return own.status;
  // A changed ptxas does not stop this toolchain's workers: they serve requests without it too.
  return CheckUnchanged(*job.ptxas, on_change_).status;
}

}  // namespace kiln
