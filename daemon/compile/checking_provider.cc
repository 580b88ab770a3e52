#include "daemon/compile/checking_provider.h"

#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status Refusal(const Toolchain& toolchain, const absl::Status& why) {
  return WithRetryAfter(
      Unavailable(
          "{} ({}) was changed on disk while the daemon served it ({}), so what it compiles "
          "counts for nothing. The daemon reads it again: ask again, and by its name and "
          "version you get what it is now, if it works",
          toolchain.Name(), toolchain.fingerprint.ShortHex(), Message(why)),
      limits::kToolchainChangeRetry);
}

// Nobody waits for such an answer, and it says nothing of the kernel.
bool SaysNothing(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

CheckingProvider::CheckingProvider(std::shared_ptr<const Toolchain> toolchain,
                                   std::unique_ptr<CompilationProvider> next, OnChange on_change)
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
  if (absl::Status change = CheckOne(*toolchain_); !change.ok()) {
    const std::lock_guard lock(mutex_);
    // Where it cannot be told, the answer does not count, but the next one may.
    if (RetryAfter(change).has_value()) change_ = change;
    return change;
  }
  // Another one's workers are not to blame, and serve requests that do not name it.
  return job.ptxas == nullptr ? absl::OkStatus() : CheckOne(*job.ptxas);
}

absl::Status CheckingProvider::CheckOne(const Toolchain& toolchain) const {
  if (toolchain.seal == nullptr) return absl::OkStatus();
  const absl::Status same = toolchain.seal->Check();
  if (same.ok()) return same;
  if (!absl::IsFailedPrecondition(same)) {
    return Unavailable("whether {} is as it was cannot be told: {}", toolchain.Name(),
                       Message(same));
  }
  on_change_(toolchain, same);
  return Refusal(toolchain, same);
}

}  // namespace kiln
