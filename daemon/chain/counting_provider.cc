#include "daemon/chain/counting_provider.h"

#include <utility>

namespace kiln {

CountingProvider::CountingProvider(std::unique_ptr<CompilationProvider> next, RecentAsks& asks)
    : ForwardingProvider("counting", std::move(next)), asks_(asks) {}

FoundResult CountingProvider::Find(const CallContext& context, const CompileJobPtr& job) {
  auto found = next().Find(context, job);
  if (found && !IsQuestion(context, *job)) {
    NoteRequest(context);
    CounterOf(*found).Add();
  }
  return found;
}

void CountingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  NoteRequest(context);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  next().Compile(std::move(context), std::move(job),
                 [this, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   CounterOf(result).Add();
                   in_flight_.fetch_sub(1, std::memory_order_relaxed);
                   done(std::move(result));
                 });
}

void CountingProvider::NoteRequest(const CallContext& context) {
  requests_.Add();
  asks_.Note(context.priority);
}

Counter& CountingProvider::CounterOf(const absl::StatusOr<CompileResult>& result) {
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

}  // namespace kiln
