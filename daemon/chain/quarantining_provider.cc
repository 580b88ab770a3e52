#include "daemon/chain/quarantining_provider.h"

#include <utility>

#include "daemon/kernel/compiler_crash.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

absl::Status Refusal(const Digest& key, const Quarantine::Entry& entry) {
  // The compiler's words last: they may be cut.
  return WithRetryAfter(
      Internal("this kernel crashed its compiler and is not compiled again for {} s (kiln evict {} "
               "lifts that): {}",
               std::chrono::ceil<std::chrono::seconds>(entry.left).count(), key.Hex(), entry.why),
      entry.left);
}

}  // namespace

void QuarantiningProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (const auto entry = quarantine_.Refuse(job->key)) return done(Refusal(job->key, *entry));
  next_->Compile(std::move(context), job,
                 [this, job, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   Judge(job, result);
                   done(std::move(result));
                 });
}

void QuarantiningProvider::Judge(const CompileJobPtr& job,
                                 const absl::StatusOr<CompileResult>& result) {
  std::string why;
  if (IsCompilerCrash(result.status())) {
    why = Message(result.status());
  } else if (result.ok() && result->failure() != nullptr && !result->failure()->deterministic) {
    why = result->failure()->message;
  } else {
    return;
  }
  quarantine_.Add(job, why);
  LogError("kernel quarantined", {{"key", job->key.Hex()}, {"why", why}});
}

}  // namespace kiln
