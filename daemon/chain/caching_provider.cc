#include "daemon/chain/caching_provider.h"

#include <bit>
#include <utility>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/artifact_reader.h"
#include "daemon/kernel/compiler_crash.h"
#include "daemon/kernel/request_document.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

// A store that is broken fails every call: the log says so at the 1st, 2nd, 4th, 8th … time.
bool IsWorthLogging(uint64_t times) { return std::has_single_bit(times); }

absl::Status Refusal(const Digest& key, const NegativeCache::Crash& crash) {
  // The compiler's words last: they may be cut.
  return WithRetryAfter(
      Internal("this kernel crashed its compiler and is not compiled again for {} s (kiln evict {} "
               "lifts that): {}",
               std::chrono::ceil<std::chrono::seconds>(crash.left).count(), key.Hex(), crash.why),
      crash.left);
}

}  // namespace

CachingProvider::CachingProvider(std::unique_ptr<CompilationProvider> next, ArtifactIndex& index,
                                 BlobStore& blobs, NegativeCache& negatives, const Clock& clock,
                                 Executor& executor, std::function<void(const Artifact&)> describe)
    : ForwardingProvider("caching", std::move(next)),
      index_(index),
      clock_(clock),
      executor_(executor),
      blobs_(blobs),
      negatives_(negatives),
      describe_(std::move(describe)) {}

FoundResult CachingProvider::Find(const CallContext& context, const CompileJobPtr& job) {
  return Find(context, job, /*is_again=*/false);
}

FoundResult CachingProvider::Find(const CallContext& context, const CompileJobPtr& job,
                                  bool is_again) {
  const CachePolicy policy = job->request.cache_policy;
  if (policy == CachePolicy::kRefresh) return std::nullopt;
  absl::StatusOr<CompileResult> found = LookUp(context, *job, is_again);
  if (policy == CachePolicy::kOnlyIfCached && absl::IsNotFound(found.status())) {
    if (auto failure = negatives_.FindFailureOfAnyAge(job->key)) {
      return CompileResult{Outcome::kHit, Tier::kMemory, std::move(failure)};
    }
  }
  if (found.ok() || policy == CachePolicy::kOnlyIfCached) return found;
  return std::nullopt;
}

void CachingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (auto found = Find(context, job, /*is_again=*/true)) return done(*std::move(found));
  if (absl::Status status = StillWanted(context, clock_); !status.ok()) return done(status);
  CompileAndKeep(std::move(context), std::move(job), std::move(done));
}

absl::StatusOr<CompileResult> CachingProvider::LookUp(const CallContext& context,
                                                      const CompileJob& job, bool is_again) {
  absl::StatusOr<CompileResult> found = LookUpArtifact(context, job);
  if (found.ok()) return found;
  if (auto failure = negatives_.FindFailure(job.key)) {
    return CompileResult{Outcome::kHit, Tier::kMemory, std::move(failure)};
  }
  if (absl::IsNotFound(found.status())) return found;
  if (absl::Status status = StillWanted(context, clock_); !status.ok()) return status;
  if (!is_again && IsWorthLogging(lookup_failures_.Add())) {
    LogWarning("look-up failed, taken as a miss",
               {{"key", job.key.ShortHex()}, {"why", Message(found.status())}});
  }
  // Damaged, or of a version that is not ours: to the caller it is not there. Anything else: we do
  // not know whether it is.
  if (absl::IsDataLoss(found.status()) || absl::IsFailedPrecondition(found.status())) {
    return NotFound("{}", Message(found.status()));
  }
  return found;
}

absl::StatusOr<CompileResult> CachingProvider::LookUpArtifact(const CallContext& context,
                                                              const CompileJob& job) {
  absl::StatusOr<FoundArtifact> found = index_.Get(context, job.key);
  if (absl::IsNotFound(found.status())) {
    return NotFound("kernel {} is not in the cache", job.key.ShortHex());
  }
  KILN_RETURN_IF_ERROR(found.status());
  KILN_ASSIGN_OR_RETURN(ReadArtifact read,
                        LoadArtifact(context, blobs_, *found, job.request.stages));
  return CompileResult{Outcome::kHit, read.tier, std::move(read.artifact)};
}

void CachingProvider::CompileAndKeep(CallContext context, CompileJobPtr job, CompileDone done) {
  if (const auto crash = negatives_.Refuse(job->key)) return done(Refusal(job->key, *crash));
  // What was compiled is kept even where the last caller has left meanwhile, so without their
  // cancellation and deadline.
  CallContext keep;
  keep.principal = context.principal;
  keep.priority = context.priority;
  keep.job = context.job;
  next().Compile(std::move(context), job,
                 [this, job, keep = std::move(keep),
                  done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   Quarantine(job, result);
                   if (!result.ok()) return done(std::move(result));
                   // The disk is not the business of the thread that runs the workers.
                   executor_.Run([this, job, keep, done, result = std::move(result)]() mutable {
                     Keep(keep, job, std::move(result), done);
                   });
                 });
}

void CachingProvider::Keep(const CallContext& context, const CompileJobPtr& job,
                           absl::StatusOr<CompileResult> result, const CompileDone& done) {
  if (const Artifact* artifact = result->artifact()) {
    if (artifact->key != job->key) {
      return done(Internal("{} answered for kernel {} with kernel {}", Describe(),
                           job->key.ShortHex(), artifact->key.ShortHex()));
    }
    negatives_.Forget(job->key);
    Store(context, *job, *artifact);
  } else if (result->failure()->deterministic) {
    negatives_.RememberFailure(job, std::get<FailurePtr>(result->value));
  }
  done(std::move(result));
}

void CachingProvider::Quarantine(const CompileJobPtr& job,
                                 const absl::StatusOr<CompileResult>& result) {
  std::string why;
  if (IsCompilerCrash(result.status())) {
    why = Message(result.status());
  } else if (result.ok() && result->failure() != nullptr && !result->failure()->deterministic) {
    why = result->failure()->message;
  } else {
    return;
  }
  negatives_.RememberCrash(job, why);
  LogError("kernel quarantined", {{"key", job->key.Hex()}, {"why", why}});
}

void CachingProvider::Store(const CallContext& context, const CompileJob& job,
                            const Artifact& artifact) {
  const Blob request = Blob::FromBytes(WriteRequest(job));
  if (describe_) describe_(artifact);
  ArtifactRecord record = MakeRecord(artifact);
  record.options = ListOptions(job.request);
  record.stages.insert(record.stages.begin(),
                       {std::string(kRequestStage), request.digest(), request.size_bytes()});
  std::vector<Blob> blobs = {request};
  for (const StageBlob& stage : artifact.stages) blobs.push_back(stage.blob);
  const absl::Status status = index_.Put(context, record, blobs);
  if (status.ok()) return;
  if (IsWorthLogging(put_failures_.Add())) {
    LogWarning("artifact not stored", {{"key", artifact.key.ShortHex()}, {"why", Message(status)}});
  }
}

}  // namespace kiln
