// One compile per key, however many ask.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "daemon/chain/forwarding_provider.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/base/timer.h"

namespace kiln {

// Requests for one key share a flight: one call to the next provider, whose answer goes to all of
// them. Find makes no flight. The flight looks again (next is caching(…)): otherwise whoever missed
// before another's flight landed, and boards after it, would compile twice.
//
// Who shares what:
//  * USE that finds nothing joins whatever is under way for its key, a refresh too: what that
//  yields is at least as fresh as a hit.
//  * REFRESH joins only another REFRESH. A compile under way may be older than what the caller
//  wants refreshed.
//  * ONLY_IF_CACHED never gets here: Find always answers it.
//
// Outcomes: of those that a compile answers, the one that has waited longest is kCompiled and the
// others are kJoined. A hit is a hit for all. An infrastructure failure goes to all, except where
// the flight was being stopped (see the .cc).
//
// A waiter's cancellation and deadline are its own. When the last waiter leaves, the flight is
// cancelled. The flight runs under the principal and job of the waiter that started it, and starts
// when the turn of any of its waiters so far comes.
//
// Errors: the next provider's, plus CANCELLED and DEADLINE_EXCEEDED of each waiter. Thread-safe;
// does not block beyond what next does. The clock and the timer outlive it.
class CoalescingProvider final : public ForwardingProvider {
 public:
  CoalescingProvider(std::unique_ptr<CompilationProvider> next, const Clock& clock, Timer& timer);
  // REQUIRES: every call is done.
  ~CoalescingProvider() override;

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

  // Keys under way now.
  size_t FlightCount() const;

 private:
  struct Flight;
  struct Waiter;
  using FlightPtr = std::shared_ptr<Flight>;
  using WaiterPtr = std::shared_ptr<Waiter>;
  using Waiters = std::list<WaiterPtr>;
  using Flights = std::unordered_map<Digest, FlightPtr, DigestHash>;

  FlightPtr FlightToJoin(const CompileJob& job) const KILN_REQUIRES(mutex_);
  Flights& FlightsOf(const CompileJob& job) KILN_REQUIRES(mutex_);

  void Board(const WaiterPtr& waiter);
  void Launch(const FlightPtr& flight);
  void Land(const FlightPtr& flight, absl::StatusOr<CompileResult> result);
  void Leave(const WaiterPtr& waiter, absl::Status status);

  const Clock& clock_;
  Timer& timer_;

  mutable Mutex mutex_;
  // Every flight from its launch until it has landed, so that a key never has two of one kind.
  Flights use_flights_ KILN_GUARDED_BY(mutex_);
  Flights refresh_flights_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
