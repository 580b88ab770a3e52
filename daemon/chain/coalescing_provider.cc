// Threads. Compile runs on the caller's thread, Land on whichever thread the next provider finishes
// on, Leave on the thread that cancels or on the timer's. All of them meet under mutex_, which
// guards the two maps, every flight's fields and every waiter's `flight`, `place` and `is_settled`.
// Nothing is called while it is held: not next_, not a waiter's `done`, not a cancellation, and no
// registration or alarm is destroyed under it either (that may wait for a callback that is about to
// take it).
//
// A waiter is settled exactly once, by whoever sets is_settled under the mutex first: Land with the
// answer, or Leave with the waiter's own CANCELLED or DEADLINE_EXCEEDED. The one that settles calls
// `done`; the other does nothing.
//
// A flight is in its map from the moment it is created until it has landed. When its last waiter
// leaves, it is told to stop and stays there, stopping, so that a newcomer does not start a second
// compile beside a worker that is just being killed: it waits for the landing. If the flight yields
// a result after all, the newcomers get it; if it yields an error, which is most likely our own
// cancellation come back, they board again and the first of them launches anew.
//
// Moving forward: a flight is launched for the waiter that started it. Whoever boards afterwards
// and is more urgent, or of another principal, tells next_.Raise: otherwise one user's backlog
// would hold up another who asks for what stands in it. Between the launch and the moment at which
// the next layers know the key, Raise finds nothing, so Launch repeats it after next().Compile has
// returned, for those who boarded meanwhile.
#include "daemon/chain/coalescing_provider.h"

#include <algorithm>
#include <utility>

namespace kiln {

struct CoalescingProvider::Flight {
  CompileJobPtr job;
  // The context of the waiter that started it, at its principal's highest priority.
  CallContext context;
  Waiters waiters;
  bool is_stopping = false;
};

struct CoalescingProvider::Waiter {
  CallContext context;
  CompileJobPtr job;
  CompileDone done;
  // Set before boarding; only who settles the waiter touches them afterwards.
  Cancellation::Registration on_cancel;
  std::unique_ptr<Alarm> on_deadline;

  FlightPtr flight;
  Waiters::iterator place;
  bool is_settled = false;
};

namespace {

bool IsRefresh(const CompileJob& job) { return job.request.cache_policy == CachePolicy::kRefresh; }

// Whether the one's waiting may have a compile start earlier that queues for the other.
bool MovesForward(const CallContext& waiter, const CallContext& flight) {
  return waiter.priority < flight.priority || waiter.principal != flight.principal;
}

// A hit carries the stages that the flight's first waiter wanted. A waiter that wants others asks
// again: it is stored.
bool Answers(const absl::StatusOr<CompileResult>& result, const CompileJob& job) {
  if (!result.ok() || result->outcome != Outcome::kHit || result->artifact() == nullptr)
    return true;
  return std::ranges::all_of(job.request.stages, [&](const std::string& stage) {
    return FindStage(result->artifact()->stages, stage) != nullptr;
  });
}

}  // namespace

CoalescingProvider::CoalescingProvider(std::unique_ptr<CompilationProvider> next,
                                       const Clock& clock, Timer& timer)
    : ForwardingProvider("coalescing", std::move(next)), clock_(clock), timer_(timer) {}

CoalescingProvider::~CoalescingProvider() = default;

void CoalescingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (absl::Status status = StillWanted(context, clock_); !status.ok()) return done(status);

  auto waiter = std::make_shared<Waiter>();
  waiter->context = std::move(context);
  waiter->job = std::move(job);
  waiter->done = std::move(done);
  // Weak, since the waiter owns what owns the callbacks.
  const auto leave = [this, weak = std::weak_ptr(waiter)](absl::Status status) {
    if (const WaiterPtr leaving = weak.lock()) Leave(leaving, std::move(status));
  };
  waiter->on_cancel =
      waiter->context.cancellation.OnCancel([leave] { leave(Cancelled("the caller went away")); });
  if (waiter->context.deadline) {
    waiter->on_deadline = timer_.At(*waiter->context.deadline, [leave] {
      leave(DeadlineExceeded("the caller's deadline passed before the kernel was compiled"));
    });
  }
  Board(waiter);
}

CoalescingProvider::Flights& CoalescingProvider::FlightsOf(const CompileJob& job) {
  return IsRefresh(job) ? refresh_flights_ : use_flights_;
}

CoalescingProvider::FlightPtr CoalescingProvider::FlightToJoin(const CompileJob& job) const {
  if (!IsRefresh(job)) {
    const auto found = use_flights_.find(job.key);
    if (found != use_flights_.end()) return found->second;
  }
  const auto found = refresh_flights_.find(job.key);
  return found == refresh_flights_.end() ? nullptr : found->second;
}

void CoalescingProvider::Board(const WaiterPtr& waiter) {
  FlightPtr flight;
  bool is_new = false;
  bool is_raised = false;
  {
    const MutexLock lock(mutex_);
    if (waiter->is_settled) return;
    flight = FlightToJoin(*waiter->job);
    is_new = flight == nullptr;
    if (is_new) {
      flight = std::make_shared<Flight>();
      flight->job = waiter->job;
      flight->context.principal = waiter->context.principal;
      flight->context.priority = waiter->context.priority;
      flight->context.job = waiter->context.job;
      FlightsOf(*waiter->job).emplace(waiter->job->key, flight);
    } else {
      is_raised = MovesForward(waiter->context, flight->context);
      if (waiter->context.principal == flight->context.principal) {
        flight->context.priority = std::min(flight->context.priority, waiter->context.priority);
      }
    }
    waiter->flight = flight;
    waiter->place = flight->waiters.insert(flight->waiters.end(), waiter);
  }
  if (is_new) {
    Launch(flight);
  } else if (is_raised) {
    next().Raise(waiter->job->key, waiter->context);
  }
}

void CoalescingProvider::Launch(const FlightPtr& flight) {
  CallContext launched;
  {
    const MutexLock lock(mutex_);
    launched = flight->context;
  }
  next().Compile(launched, flight->job, [this, flight](absl::StatusOr<CompileResult> result) {
    Land(flight, std::move(result));
  });
  std::vector<CallContext> boarded;
  {
    const MutexLock lock(mutex_);
    for (const WaiterPtr& waiter : flight->waiters) {
      if (MovesForward(waiter->context, launched)) boarded.push_back(waiter->context);
    }
  }
  for (const CallContext& waiter : boarded) next().Raise(flight->job->key, waiter);
}

void CoalescingProvider::Land(const FlightPtr& flight, absl::StatusOr<CompileResult> result) {
  Waiters answered;
  Waiters boarding_again;
  {
    const MutexLock lock(mutex_);
    FlightsOf(*flight->job).erase(flight->job->key);
    const bool is_stopped = flight->is_stopping && !result.ok();
    for (const WaiterPtr& waiter : std::exchange(flight->waiters, {})) {
      waiter->flight = nullptr;
      waiter->is_settled = !is_stopped && Answers(result, *waiter->job);
      (waiter->is_settled ? answered : boarding_again).push_back(waiter);
    }
  }
  for (const WaiterPtr& waiter : answered) {
    waiter->on_cancel.reset();
    waiter->on_deadline.reset();
    // A copy each: the artifact itself is shared.
    std::exchange(waiter->done, nullptr)(result);
    if (result.ok() && result->outcome == Outcome::kCompiled) result->outcome = Outcome::kJoined;
  }
  for (const WaiterPtr& waiter : boarding_again) Board(waiter);
}

void CoalescingProvider::Leave(const WaiterPtr& waiter, absl::Status status) {
  std::optional<Cancellation> deserted;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(waiter->is_settled, true)) return;
    if (const FlightPtr flight = std::exchange(waiter->flight, nullptr)) {
      flight->waiters.erase(waiter->place);
      if (flight->waiters.empty() && !std::exchange(flight->is_stopping, true)) {
        deserted = flight->context.cancellation;
      }
    }
  }
  // First: a caller whose call is over may rely on its work having been told to stop.
  if (deserted) deserted->Cancel();
  std::exchange(waiter->done, nullptr)(std::move(status));
}

size_t CoalescingProvider::FlightCount() const {
  const MutexLock lock(mutex_);
  return use_flights_.size() + refresh_flights_.size();
}

}  // namespace kiln
