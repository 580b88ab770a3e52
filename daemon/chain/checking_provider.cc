#include "daemon/chain/checking_provider.h"

#include <utility>

#include "storage/base/limits.h"

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
  KILN_RETURN_IF_ERROR(CheckFiles(*toolchain_));
  return job.ptxas == nullptr ? absl::OkStatus() : CheckFiles(*job.ptxas);
}

absl::Status CheckingProvider::CheckFiles(const Toolchain& toolchain) {
  const absl::Status same = toolchain.seal == nullptr ? absl::OkStatus() : toolchain.seal->Check();
  if (same.ok()) return same;
  if (!absl::IsFailedPrecondition(same)) {
    return Unavailable("whether {} is as it was cannot be told: {}", toolchain.Name(),
                       Message(same));
  }
  on_change_(toolchain, same);
  absl::Status refusal = WithRetryAfter(
      Unavailable(
          "{} ({}) was changed on disk while the daemon served it ({}), so what it gives counts "
          "for nothing. The daemon reads it again: ask again, and by its name and version you get "
          "what it is now, if it works",
          toolchain.Name(), toolchain.fingerprint.ShortHex(), Message(same)),
      limits::kToolchainChangeRetry);
  // A changed ptxas does not stop this toolchain's workers: they serve requests without it too.
  if (&toolchain == toolchain_.get()) {
    const MutexLock lock(mutex_);
    change_ = refusal;
  }
  return refusal;
}

}  // namespace kiln
