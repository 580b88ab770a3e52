// Lets compiles in: so many at a time, in a fair order, as memory allows.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/compile/compilation_provider.h"
#include "daemon/compile/timer.h"
#include "daemon/policy/fair_queue.h"
#include "daemon/policy/memory_probe.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"

namespace kiln {

struct AdmissionLimits {
  int running_max = 1;
  FairQueueLimits queue{limits::kQueueLengthDefault, limits::kQueueBytesMax};
  // With less than this available, one compile runs at a time.
  uint64_t free_memory_bytes_min = limits::kFreeMemoryBytesDefault;
};

struct AdmissionStats {
  size_t running = 0;
  size_t queued = 0;
  size_t queued_bytes = 0;
  std::array<size_t, 4> queued_by_priority{};
  uint64_t rejected = 0;
};

// At most `running_max` compiles are inside the next provider; the others wait in a FairQueue,
// whose order is the policy. Memory is looked at whenever a compile is about to start beside
// others; one alone always may, so the queue never stands still.
//
// Errors: RESOURCE_EXHAUSTED with a retry hint when the queue is full; CANCELLED and
// DEADLINE_EXCEEDED for a caller that leaves while it waits, which frees its place at once;
// otherwise the next provider's.
//
// Thread-safe. Starts the next provider's work on the thread that made room: a caller's, or the one
// that finished another compile. Does not block beyond what the next provider does. The probe,
// clock and timer outlive it.
class AdmissionProvider final : public CompilationProvider {
 public:
  AdmissionProvider(std::unique_ptr<CompilationProvider> next, const AdmissionLimits& limits,
                    const MemoryProbe& memory, const Clock& clock, Timer& timer);
  // REQUIRES: every call is done.
  ~AdmissionProvider() override;

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, Priority priority) override;
  std::string Describe() const override;

  AdmissionStats Stats() const;

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  using Ticket = FairQueue::Ticket;

  absl::Status Enqueue(const CallPtr& call);
  void Abandon(const CallPtr& call, absl::Status status);
  void ForgetWaiting(const Call& call);
  CallPtr NextToStart();
  bool HasMemory() const;
  void StartWhatMay();
  void Start(const CallPtr& call);
  void Finish(const CallPtr& call, SteadyTime started, absl::StatusOr<CompileResult> result);
  std::chrono::milliseconds RetryHint() const;

  const std::unique_ptr<CompilationProvider> next_;
  const AdmissionLimits limits_;
  const MemoryProbe& memory_;
  const Clock& clock_;
  Timer& timer_;

  mutable std::mutex mutex_;
  FairQueue queue_;
  std::unordered_map<Ticket, CallPtr> waiting_;
  std::set<std::pair<Digest, Ticket>> waiting_by_key_;
  int running_ = 0;
  bool is_starting_ = false;  // a thread is in StartWhatMay
  uint64_t rejected_ = 0;
  // Of the compiles so far, recent ones weighing more; for the retry hint.
  std::chrono::nanoseconds mean_run_time_ = std::chrono::milliseconds(200);
};

}  // namespace kiln
