// Answers from the store, compiles what is not there, and keeps it.
#pragma once

#include <functional>
#include <memory>

#include "daemon/chain/forwarding_provider.h"
#include "daemon/policy/negative_cache.h"
#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/executor.h"
#include "storage/base/metrics.h"
#include "storage/blob_store.h"

namespace kiln {

// Find looks in the store, on the caller's thread, and Compile does it first. On a miss Compile
// asks the next provider and stores what comes back, through `executor`, before it answers: an
// answered artifact is a stored one. The store never fails a compile: one that cannot look is a
// miss, one that does not take the artifact is as good as none, and the log says so now and then.
//
// Deterministic failures are remembered for a while and answered as hits, where nothing is stored.
// A source that crashed every worker that tried it, or that the machine ended every time, is
// quarantined: until its time is over, or an operator lifts it, the answer is INTERNAL with a retry
// hint. REFRESH skips the look-up and the remembered failures, not the quarantine. ONLY_IF_CACHED
// answers NOT_FOUND on a miss, or the store's error where it could not look; on a miss that is
// known to be a failure, however old, that.
//
// With an artifact, the request that it was compiled from is stored (request_document.h).
//
// A hit carries the wanted stages and the final binary, a fresh compile carries all stages.
//
// Thread-safe. Blocks as a read of the store does. All that it refers to outlives it.
class CachingProvider final : public ForwardingProvider {
 public:
  // `describe` sets an artifact's description, which is stored with it. Null: none is stored.
  CachingProvider(std::unique_ptr<CompilationProvider> next, ArtifactIndex& index, BlobStore& blobs,
                  NegativeCache& negatives, const Clock& clock, Executor& executor,
                  std::function<void(const Artifact&)> describe = nullptr);

  FoundResult Find(const CallContext& context, const CompileJobPtr& job) override;
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

 private:
  // `is_again`: a failure to look has been counted, and was logged.
  FoundResult Find(const CallContext& context, const CompileJobPtr& job, bool is_again);
  absl::StatusOr<CompileResult> LookUp(const CallContext& context, const CompileJob& job,
                                       bool is_again);
  absl::StatusOr<CompileResult> LookUpArtifact(const CallContext& context, const CompileJob& job);
  void CompileAndKeep(CallContext context, CompileJobPtr job, CompileDone done);
  void Keep(const CallContext& context, const CompileJobPtr& job,
            absl::StatusOr<CompileResult> result, const CompileDone& done);
  void Store(const CallContext& context, const CompileJob& job, const Artifact& artifact);
  void Quarantine(const CompileJobPtr& job, const absl::StatusOr<CompileResult>& result);

  ArtifactIndex& index_;
  const Clock& clock_;
  Executor& executor_;
  BlobStore& blobs_;
  NegativeCache& negatives_;
  const std::function<void(const Artifact&)> describe_;
  Counter lookup_failures_{"store_lookup_failures", "Look-ups that the store failed: misses."};
  Counter put_failures_{"store_put_failures", "Compiled artifacts that the store did not take."};
};

}  // namespace kiln
