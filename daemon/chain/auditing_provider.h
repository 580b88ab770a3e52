// Compiles some of the stored artifacts again and compares the binaries.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "daemon/chain/forwarding_provider.h"
#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/executor.h"
#include "storage/base/lru_cache.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"
#include "storage/base/timer.h"

namespace kiln {

struct AuditCounters {
  Counter same{"audits_same", "Hits compiled again to the same binary."};
  Counter differed{"audits_differed", "Hits that were wrong, as compiles showed: evicted."};
  Counter nondeterministic{"audits_nondeterministic",
                           "Hits compiled again to now one binary and now another, or to one that "
                           "differs for debuggers alone."};
  Counter given_up{"audits_given_up", "Hits not compiled again: not possible, or too many waited."};
};

// Audits hits: one in `one_in` of the artifacts that Find finds stored. When the
// daemon is idle (`is_idle`), `compiler`, which does not look into the store, compiles an audited
// artifact again: one at a time, at background priority. The final binaries are compared byte for
// byte. A request that has to wait for a compile cancels the audit under way; it is repeated later.
//
// Where the binaries differ, two more compiles tell why. If all three agree, the stored binary is
// wrong, or the machine was when it was made: the artifact is evicted, and the log says so loudly.
// If they disagree, the compiler is not deterministic, as some passes are not; this is counted and
// nothing else. The same holds for a difference in nothing that is executed (same_code.h). A key is
// audited once in the life of the process.
//
// Changes no answer. Errors: the next provider's. Thread-safe; does not block. All that it refers
// to outlives it. REQUIRES on destruction: every call is done, audits included.
class AuditingProvider final : public ForwardingProvider {
 public:
  struct Parts {
    AuditCounters& counters;
    CompilationProvider& compiler;
    ArtifactIndex& index;
    Executor& executor;
    std::function<bool()> is_idle;
    const Clock& clock;
    Timer& timer;
  };

  // REQUIRES: one_in > 0.
  AuditingProvider(std::unique_ptr<CompilationProvider> next, uint64_t one_in, Parts parts);
  ~AuditingProvider() override;

  FoundResult Find(const CallContext& context, const CompileJobPtr& job) override;
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

  // Audits that wait or run.
  size_t waiting() const;

 private:
  struct Audit;
  using AuditPtr = std::shared_ptr<Audit>;

  void Consider(const CompileJobPtr& job, const CompileResult& result);
  // Sets the alarm where something waits and none is set.
  void LookLater();
  void StartIfIdle();
  void Run(const AuditPtr& audit);
  void Judge(const AuditPtr& audit, const absl::StatusOr<CompileResult>& result);
  void Evict(const Audit& audit);
  // Ends the audit under way, which goes back to the head of those that wait.
  void GiveWay();

  const uint64_t one_in_;
  const Parts parts_;
  std::atomic<uint64_t> hits_ = 0;

  mutable Mutex mutex_;
  std::deque<AuditPtr> waiting_ KILN_GUARDED_BY(mutex_);
  AuditPtr running_ KILN_GUARDED_BY(mutex_);
  size_t kept_bytes_ KILN_GUARDED_BY(mutex_) = 0;  // of both
  LruCache<bool> seen_ KILN_GUARDED_BY(mutex_);
  bool will_look_ KILN_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Alarm> alarm_ KILN_GUARDED_BY(mutex_);  // last: it calls back
};

}  // namespace kiln
