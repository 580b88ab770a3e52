#include "daemon/chain/checking_provider.h"

#include <utility>

namespace kiln {
namespace {

// Nobody waits for such an answer, and it says nothing of the kernel.
bool SaysNothing(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

CheckingProvider::CheckingProvider(std::shared_ptr<const Toolchain> toolchain,
                                   std::unique_ptr<CompilationProvider> next,
                                   OnToolchainChange on_change)
    : toolchain_(std::move(toolchain)), next_(std::move(next)), on_change_(std::move(on_change)) {}

void CheckingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (const absl::Status change = KnownChange(); !change.ok()) return done(change);
  next_->Compile(std::move(context), job,
                 [this, job, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   if (SaysNothing(result.status())) return done(std::move(result));
                   const absl::Status same = Check(*job);
                   if (!same.ok()) return done(same);
                   done(std::move(result));
                 });
}

absl::Status CheckingProvider::KnownChange() const {
  const std::lock_guard lock(mutex_);
  return change_;
}

absl::Status CheckingProvider::Check(const CompileJob& job) {
  if (absl::Status change = CheckUnchanged(*toolchain_, on_change_); !change.ok()) {
    const std::lock_guard lock(mutex_);
    // Where it cannot be told, the answer does not count, but the next one may.
    if (RetryAfter(change).has_value()) change_ = change;
    return change;
  }
  // Another one's workers are not to blame, and serve requests that do not name it.
  return job.ptxas == nullptr ? absl::OkStatus() : CheckUnchanged(*job.ptxas, on_change_);
}

}  // namespace kiln
