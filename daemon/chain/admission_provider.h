// Starts so many compiles at a time, in a fair order, as memory allows.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/chain/forwarding_provider.h"
#include "daemon/policy/fair_queue.h"
#include "daemon/policy/memory_estimator.h"
#include "daemon/policy/memory_probe.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"
#include "storage/base/timer.h"

namespace kiln {

struct AdmissionLimits {
  int running_max = 1;
  FairQueueLimits queue{limits::kQueueLengthDefault, limits::kQueueBytesMax};
  // Memory that stays free once every running compile has taken its expected share.
  uint64_t free_memory_bytes_min = limits::kFreeMemoryBytesDefault;
  // The memory expected of a compile whose like has not run yet.
  uint64_t compile_bytes_default = limits::kCompileMemoryDefault;
  // From this much pressure on, in percent, one compile runs at a time. 0: whatever the pressure.
  double pressure_percent_max = limits::kMemoryPressurePercentDefault;
};

struct AdmissionStats {
  size_t running = 0;
  // Places taken: a compile that several principals wait for has one of each.
  size_t queued = 0;
  size_t queued_bytes = 0;
  // The memory expected of all running compiles together.
  uint64_t expected_bytes = 0;
};

// At most `running_max` compiles are inside the next provider; the others wait in a FairQueue,
// whose order is the policy. A compile that several principals wait for (Raise) has a place in the
// line of each, and starts when the first of these places is next. So nobody waits longer because
// another principal has asked for the same compile before.
//
// A compile starts beside others only where memory bears it: what is available must hold what it
// and those that run are expected to take (MemoryEstimator, which learns from what workers report),
// with some left over. What those that run have taken already counts twice that way, to the safe
// side. While the kernel reports that work waits for memory, none starts beside others either. One
// alone always may, so the queue never stands still. A compile that is held back is tried again
// when another ends, and soon after in any case. None overtakes a compile that is held back.
//
// Errors: RESOURCE_EXHAUSTED with a retry hint when the queue is full; CANCELLED and
// DEADLINE_EXCEEDED for a caller that leaves while it waits, which frees its place at once;
// otherwise the next provider's.
//
// Thread-safe. Starts the next provider's work on the thread that made room: a caller's, or the one
// that finished another compile. Does not block beyond what the next provider does. The probe,
// clock and timer outlive it.
class AdmissionProvider final : public ForwardingProvider {
 public:
  AdmissionProvider(std::unique_ptr<CompilationProvider> next, const AdmissionLimits& limits,
                    const MemoryProbe& memory, const Clock& clock, Timer& timer);
  // REQUIRES: every call is done.
  ~AdmissionProvider() override;

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;

  AdmissionStats Stats() const;

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  using Ticket = FairQueue::Ticket;

  absl::Status Enqueue(const CallPtr& call);
  void Abandon(const CallPtr& call, absl::Status status);
  void AddTicket(const CallPtr& call, const Principal& principal, Ticket ticket)
      KILN_REQUIRES(mutex_);
  void ForgetWaiting(const CallPtr& call) KILN_REQUIRES(mutex_);
  // Gives `waiter` a ticket for the call, or has its own move up.
  void RaiseCall(const CallPtr& call, const CallContext& waiter) KILN_REQUIRES(mutex_);
  // Has compiles that nobody waits for finish soon, since `waiter` waits for a place.
  void MakeWay(const CallContext& waiter);
  bool IsRunningAhead(const Digest& key) const;
  // How many places somebody waits for.
  size_t CountUrgent() const KILN_REQUIRES(mutex_);
  CallPtr NextToStart();
  bool MemoryBears(uint64_t bytes) const KILN_REQUIRES(mutex_);
  // Sets the alarm where a call is held back and none is set.
  void LookAgainLater();
  void StartWhatMay();
  void Start(const CallPtr& call);
  void Finish(const CallPtr& call, SteadyTime started, absl::StatusOr<CompileResult> result);
  std::chrono::milliseconds RetryHint() const KILN_REQUIRES(mutex_);
  Gauge QueuedGauge(Priority priority, std::string name);

  const AdmissionLimits limits_;
  const MemoryProbe& memory_;
  const Clock& clock_;
  Timer& timer_;

  mutable Mutex mutex_;
  FairQueue queue_ KILN_GUARDED_BY(mutex_);
  std::unordered_map<Ticket, CallPtr> waiting_ KILN_GUARDED_BY(mutex_);
  std::set<std::pair<Digest, CallPtr>> waiting_by_key_ KILN_GUARDED_BY(mutex_);
  int running_ KILN_GUARDED_BY(mutex_) = 0;
  std::set<Digest> running_ahead_
      KILN_GUARDED_BY(mutex_);                        // that nobody waits for, nor their place
  bool is_starting_ KILN_GUARDED_BY(mutex_) = false;  // a thread is in StartWhatMay
  // Mean over the compiles so far, recent ones weighing more; for the retry hint.
  std::chrono::nanoseconds mean_run_time_ KILN_GUARDED_BY(mutex_) = std::chrono::milliseconds(200);

  MemoryEstimator estimator_ KILN_GUARDED_BY(mutex_);
  uint64_t expected_bytes_ KILN_GUARDED_BY(mutex_) = 0;  // of those that run
  bool is_held_back_ KILN_GUARDED_BY(mutex_) = false;    // the next one is, now
  Counter held_back_{"held_back",
                     "Compiles that could have started at once but for memory, each counted once."};
  bool will_look_again_ KILN_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Alarm> look_again_ KILN_GUARDED_BY(mutex_);  // after what it calls

  const std::array<Gauge, 4> queued_gauges_{QueuedGauge(Priority::kWaitingRank, "waiting rank"),
                                            QueuedGauge(Priority::kAutotune, "autotune"),
                                            QueuedGauge(Priority::kWarm, "warm"),
                                            QueuedGauge(Priority::kBackground, "background")};
  Gauge queued_bytes_gauge_{"queued_bytes", "The sources of the compiles that wait.",
                            [this] { return Stats().queued_bytes; }};
  Gauge running_gauge_{"running", "Compiles under way.", [this] { return Stats().running; }};
  Gauge running_max_gauge_{"running_max",
                           "The most compiles at the same time, as cores and settings have it.",
                           [this] { return limits_.running_max; }};
  Gauge expected_gauge_{"expected_memory_bytes",
                        "Memory that the compiles under way are expected to take.",
                        [this] { return Stats().expected_bytes; }};
  Gauge available_gauge_{"available_memory_bytes",
                         "Memory that could be used without swapping, within all limits.",
                         [this] { return memory_.Look().available_bytes; }};
  Gauge pressure_gauge_{"memory_pressure_percent",
                        "Share of the last ten seconds in which something waited for memory.",
                        [this] { return memory_.Look().pressure_percent; }};
};

}  // namespace kiln
