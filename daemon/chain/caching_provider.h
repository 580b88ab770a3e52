// Answers from the store, compiles what is not there, and keeps it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "daemon/chain/compilation_provider.h"
#include "daemon/kernel/artifact_reader.h"
#include "daemon/policy/failure_cache.h"
#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/executor.h"
#include "storage/base/limits.h"
#include "storage/blob_store.h"

namespace kiln {

// Looks in the store first, on the caller's thread, and answers a hit before returning. On a miss
// it asks the next provider and stores what comes back, through `executor`, before it answers: an
// answered artifact is a stored one. The store never fails a compile: one that cannot look is a
// miss, one that does not take the artifact is as good as none, and the log says so now and then.
//
// Deterministic failures are remembered for a while and answered as hits. REFRESH skips the look-up
// and the remembered failures. ONLY_IF_CACHED answers NOT_FOUND on a miss, or the store's error
// where it could not look; on a miss that is known to be a failure, however old, that.
//
// With an artifact, the request that it was compiled from is stored (request_document.h).
//
// A hit carries the wanted stages and the final binary, a fresh compile carries all stages.
//
// Thread-safe. Blocks as a read of the store does. Index, blobs, clock and executor outlive it.
class CachingProvider final : public CompilationProvider {
 public:
  CachingProvider(std::unique_ptr<CompilationProvider> next, ArtifactIndex& index, BlobStore& blobs,
                  const Clock& clock, Executor& executor,
                  std::chrono::nanoseconds failure_time_to_live = limits::kFailureTtl);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;
  std::string Describe() const override;

  // What is remembered, for whoever asks about it.
  FailureCache& failures() { return failures_; }

 private:
  absl::StatusOr<CompileResult> LookUp(const CallContext& context, const CompileJob& job);
  absl::StatusOr<CompileResult> LookUpArtifact(const CallContext& context, const CompileJob& job);
  void CompileAndKeep(CallContext context, CompileJobPtr job, CompileDone done);
  void Keep(const CallContext& context, const CompileJobPtr& job,
            absl::StatusOr<CompileResult> result, const CompileDone& done);
  void Store(const CallContext& context, const CompileJob& job, const Artifact& artifact);
  void LogLookUpFailure(const Digest& key, const absl::Status& status);

  const std::unique_ptr<CompilationProvider> next_;
  ArtifactIndex& index_;
  const Clock& clock_;
  Executor& executor_;
  ArtifactReader reader_;
  FailureCache failures_;
  // How often, for the log alone.
  std::atomic<uint64_t> lookup_failures_ = 0;
  std::atomic<uint64_t> put_failures_ = 0;
};

}  // namespace kiln
