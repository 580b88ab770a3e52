#include "daemon/chain/counting_provider.h"

#include <utility>

namespace kiln {

uint64_t CompileCounts::InFlight() const {
  const uint64_t done = hits[0] + hits[1] + hits[2] + joined + compiled + failed + not_found +
                        rejected + abandoned + errors;
  // The counters are read one after the other, while they move.
  return requests > done ? requests - done : 0;
}

CountingProvider::CountingProvider(std::unique_ptr<CompilationProvider> next)
    : ForwardingProvider("counting", std::move(next)) {}

void CountingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  next().Compile(std::move(context), std::move(job),
                 [this, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   CounterOf(result).fetch_add(1, std::memory_order_relaxed);
                   done(std::move(result));
                 });
}

CountingProvider::Counter& CountingProvider::CounterOf(
    const absl::StatusOr<CompileResult>& result) {
  if (!result.ok()) {
    switch (result.status().code()) {
      case absl::StatusCode::kNotFound:
        return not_found_;
      case absl::StatusCode::kResourceExhausted:
        return rejected_;
      case absl::StatusCode::kCancelled:
      case absl::StatusCode::kDeadlineExceeded:
        return abandoned_;
      default:
        return errors_;
    }
  }
  if (const CompileFailure* failure = result->failure()) {
    return failure->deterministic ? failed_ : errors_;
  }
  switch (result->outcome) {
    case Outcome::kHit:
      return hits_[static_cast<size_t>(result->tier.value_or(Tier::kMemory))];
    case Outcome::kJoined:
      return joined_;
    case Outcome::kCompiled:
      return compiled_;
  }
  return errors_;
}

CompileCounts CountingProvider::Counts() const {
  CompileCounts counts;
  for (size_t tier = 0; tier < hits_.size(); ++tier) counts.hits[tier] = hits_[tier];
  counts.joined = joined_;
  counts.compiled = compiled_;
  counts.failed = failed_;
  counts.not_found = not_found_;
  counts.rejected = rejected_;
  counts.abandoned = abandoned_;
  counts.errors = errors_;
  counts.requests = requests_;  // last, so that none is done that is not yet counted as a request
  return counts;
}

}  // namespace kiln
