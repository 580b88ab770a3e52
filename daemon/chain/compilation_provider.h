// The one small interface that the compile path is composed of (after XLA's CompilationProvider):
//
//   counting(coalescing(auditing(caching(admission(routing(checking(pooled(triton-3.6.0)), …))))))
//
// Asynchronous, because a job of ten thousand ranks waits for one compile, and a waiting rank must
// not cost a thread. RequestResolver stands before the chain: it validates a CompileRequest and
// gives it toolchain and key.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "daemon/kernel/compile_job.h"
#include "storage/base/call_context.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// A CompileResult says what the compiler said: an artifact or a failure of the source. A Status
// says that the infrastructure failed (queue full, worker crashed, caller gone); it is never
// cached.
using CompileDone = std::function<void(absl::StatusOr<CompileResult>)>;
// Empty: only Compile can answer.
using FoundResult = std::optional<absl::StatusOr<CompileResult>>;

// Whether the caller only asks what is there, as `kiln wait` does. Such a question uses nothing,
// and counts as no request.
inline bool IsQuestion(const CallContext& context, const CompileJob& job) {
  return IsAhead(context.priority) && job.request.cache_policy == CachePolicy::kOnlyIfCached;
}

class CompilationProvider {
 public:
  virtual ~CompilationProvider() = default;

  // The answer that is there without a compile, of those that Compile may give. So a hit costs no
  // flight, no queue and no callback. Thread-safe. Does not block beyond local disk reads.
  virtual FoundResult Find(const CallContext& /*context*/, const CompileJobPtr& /*job*/) {
    return std::nullopt;
  }

  // Starts. Calls `done` exactly once, on any thread, possibly before returning; `done` must not
  // block. Does not block itself beyond local disk reads.
  //
  // Cancelling the context makes `done` come soon with CANCELLED (or with the result, when that was
  // faster); work that nobody waits for any more stops. The context's deadline is honoured the same
  // way, with DEADLINE_EXCEEDED.
  //
  // Thread-safe. The provider outlives all its calls.
  virtual void Compile(CallContext context, CompileJobPtr job, CompileDone done) = 0;

  // Someone more urgent, or of another principal, now waits as well for the compile of `key` that
  // is under way here, or for its place. Where it still queues, it is to start no later than if
  // `waiter` (its principal, priority and job) had queued it now; where it runs, it is to yield to
  // others no more than a compile of the waiter's. A hint; unknown keys are ignored. Decorators
  // pass it on. Thread-safe; does not block.
  virtual void Raise(const Digest& /*key*/, const CallContext& /*waiter*/) {}

  // The composition, outermost first.
  virtual std::string Describe() const = 0;
};

}  // namespace kiln
