// Threads. mutex_ guards everything below it in the header and every call's `tickets` and
// `is_over`. Nothing is called while it is held: not next_, not a call's `done`, and no
// registration or alarm is destroyed.
//
// A call is in one of three states: new (no tickets yet), waiting (in the queue), over (started, or
// answered without). Its cancellation and its deadline may strike in any of them. Whoever moves it
// to over, under the mutex, goes on with it alone: NextToStart to start it, Abandon to answer it.
// Once started, the call's context goes to the next provider, which honours cancellation and
// deadline itself.
//
// A call has a ticket for each principal that waits for it: for the one that brought it, and for
// each that Raise told of since. The first whose turn comes starts it, and the others are void.
//
// One thread at a time is in StartWhatMay's loop; a thread that makes room meanwhile leaves it to
// that one, which looks again before it leaves. So a provider that finishes before its Compile
// returns makes a loop and no recursion.
#include "daemon/chain/admission_provider.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/kernel/request_shape.h"

namespace kiln {

struct AdmissionProvider::Call {
  CallContext context;
  CompileJobPtr job;
  CompileDone done;
  // Set while the call is new; after that only whoever moved it to over touches them.
  Cancellation::Registration on_cancel;
  std::unique_ptr<Alarm> on_deadline;

  std::map<Principal, Ticket> tickets;
  bool is_over = false;
  bool was_held_back = false;
  uint64_t expected_bytes = 0;  // once started
};

namespace {

size_t QueuedBytes(const CompileJob& job) {
  constexpr size_t kOverhead = 4096;  // the call itself
  return RequestBytes(job.request) + kOverhead;
}

}  // namespace

AdmissionProvider::AdmissionProvider(std::unique_ptr<CompilationProvider> next,
                                     const AdmissionLimits& limits, const MemoryProbe& memory,
                                     const Clock& clock, Timer& timer)
    : ForwardingProvider("admission", std::move(next)),
      limits_(limits),
      memory_(memory),
      clock_(clock),
      timer_(timer),
      queue_(limits.queue),
      estimator_(limits.compile_bytes_default) {}

AdmissionProvider::~AdmissionProvider() = default;

void AdmissionProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  if (absl::Status status = StillWanted(context, clock_); !status.ok()) return done(status);
  auto call = std::make_shared<Call>();
  call->context = std::move(context);
  call->job = std::move(job);
  call->done = std::move(done);
  // Weak, since the call owns what owns the callbacks.
  const auto abandon = [this, weak = std::weak_ptr(call)](absl::Status status) {
    if (const CallPtr abandoned = weak.lock()) Abandon(abandoned, std::move(status));
  };
  call->on_cancel = call->context.cancellation.OnCancel(
      [abandon] { abandon(Cancelled("the caller went away while its compile was queued")); });
  if (call->context.deadline) {
    call->on_deadline = timer_.At(*call->context.deadline, [abandon] {
      abandon(DeadlineExceeded("the caller's deadline passed while its compile was queued"));
    });
  }
  const CallContext waiter = call->context;
  if (absl::Status status = Enqueue(call); !status.ok()) return call->done(status);
  StartWhatMay();
  MakeWay(waiter);
}

// OK also for a call that was abandoned before it got here.
absl::Status AdmissionProvider::Enqueue(const CallPtr& call) {
  const MutexLock lock(mutex_);
  if (call->is_over) return absl::OkStatus();
  absl::StatusOr<Ticket> ticket = queue_.Push(call->context, QueuedBytes(*call->job));
  if (!ticket.ok()) {
    call->is_over = true;
    return WithRetryAfter(ticket.status(), RetryHint());
  }
  AddTicket(call, call->context.principal, *ticket);
  waiting_by_key_.emplace(call->job->key, call);
  return absl::OkStatus();
}

void AdmissionProvider::Abandon(const CallPtr& call, absl::Status status) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(call->is_over, true)) return;
    ForgetWaiting(call);
  }
  std::exchange(call->done, nullptr)(std::move(status));
}

void AdmissionProvider::AddTicket(const CallPtr& call, const Principal& principal, Ticket ticket) {
  call->tickets.emplace(principal, ticket);
  waiting_.emplace(ticket, call);
}

// Does nothing for a call that does not wait.
void AdmissionProvider::ForgetWaiting(const CallPtr& call) {
  for (const auto& [principal, ticket] : std::exchange(call->tickets, {})) {
    queue_.Remove(ticket);
    waiting_.erase(ticket);
  }
  waiting_by_key_.erase({call->job->key, call});
}

void AdmissionProvider::StartWhatMay() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(is_starting_, true)) return;
  }
  while (const CallPtr call = NextToStart()) Start(call);
  LookAgainLater();
}

// Null where nothing may start now; then the caller has left the loop.
AdmissionProvider::CallPtr AdmissionProvider::NextToStart() {
  const MutexLock lock(mutex_);
  is_held_back_ = false;
  const std::optional<Ticket> next = running_ < limits_.running_max ? queue_.Next() : std::nullopt;
  if (!next) {
    is_starting_ = false;
    return nullptr;
  }
  const CallPtr call = waiting_.at(*next);
  const uint64_t bytes = estimator_.BytesFor(*call->job);
  if (running_ > 0 && !MemoryBears(bytes)) {
    if (!std::exchange(call->was_held_back, true)) held_back_.Add();
    is_held_back_ = true;
    is_starting_ = false;
    return nullptr;
  }
  queue_.Pop();
  call->is_over = true;
  call->expected_bytes = bytes;
  ForgetWaiting(call);
  ++running_;
  if (IsAhead(call->context.priority) && CountUrgent() == 0) {
    running_ahead_.insert(call->job->key);
  }
  expected_bytes_ += bytes;
  return call;
}

bool AdmissionProvider::MemoryBears(uint64_t bytes) const {
  const MemoryState memory = memory_.Look();
  if (limits_.pressure_percent_max > 0 && memory.pressure_percent >= limits_.pressure_percent_max) {
    return false;
  }
  return !memory.available_bytes ||
         *memory.available_bytes >= limits_.free_memory_bytes_min + expected_bytes_ + bytes;
}

void AdmissionProvider::LookAgainLater() {
  std::unique_ptr<Alarm> rung;  // goes after the mutex is released
  const MutexLock lock(mutex_);
  if (!is_held_back_ || std::exchange(will_look_again_, true)) return;
  rung = std::exchange(look_again_, timer_.At(clock_.Now() + limits::kMemoryLookAgain, [this] {
    {
      const MutexLock callback_lock(mutex_);
      will_look_again_ = false;
    }
    StartWhatMay();
  }));
}

void AdmissionProvider::Start(const CallPtr& call) {
  call->on_cancel.reset();
  call->on_deadline.reset();
  const SteadyTime started = clock_.Now();
  next().Compile(call->context, call->job,
                 [this, call, started](absl::StatusOr<CompileResult> result) {
                   Finish(call, started, std::move(result));
                 });
  // MakeWay may have come before the next provider knew the key.
  if (!IsAhead(call->context.priority) || IsRunningAhead(call->job->key)) return;
  CallContext waiter = call->context;
  waiter.priority = Priority::kWaitingRank;
  next().Raise(call->job->key, waiter);
}

bool AdmissionProvider::IsRunningAhead(const Digest& key) const {
  const MutexLock lock(mutex_);
  return running_ahead_.contains(key);
}

void AdmissionProvider::Finish(const CallPtr& call, SteadyTime started,
                               absl::StatusOr<CompileResult> result) {
  {
    const MutexLock lock(mutex_);
    --running_;
    running_ahead_.erase(call->job->key);
    expected_bytes_ -= call->expected_bytes;
    if (result.ok()) estimator_.Learn(*call->job, result->peak_bytes);
    mean_run_time_ += (clock_.Now() - started - mean_run_time_) / 8;
  }
  // The worker first, then the answer.
  StartWhatMay();
  std::exchange(call->done, nullptr)(std::move(result));
}

// When the queue will be about half as long.
std::chrono::milliseconds AdmissionProvider::RetryHint() const {
  using std::chrono::milliseconds;
  const auto drain =
      mean_run_time_ * static_cast<int64_t>(queue_.length() / 2) / std::max(limits_.running_max, 1);
  return std::clamp(std::chrono::duration_cast<milliseconds>(drain), limits::kRetryHintMin,
                    limits::kRetryHintMax);
}

void AdmissionProvider::Raise(const Digest& key, const CallContext& waiter) {
  {
    const MutexLock lock(mutex_);
    for (auto entry = waiting_by_key_.lower_bound({key, nullptr});
         entry != waiting_by_key_.end() && entry->first == key; ++entry) {
      RaiseCall(entry->second, waiter);
    }
    if (!IsAhead(waiter.priority)) running_ahead_.erase(key);
  }
  next().Raise(key, waiter);
  MakeWay(waiter);
}

void AdmissionProvider::MakeWay(const CallContext& waiter) {
  if (IsAhead(waiter.priority)) return;
  std::vector<Digest> raised;
  {
    const MutexLock lock(mutex_);
    for (size_t places = CountUrgent(); places > 0 && !running_ahead_.empty(); --places) {
      raised.push_back(running_ahead_.extract(running_ahead_.begin()).value());
    }
  }
  for (const Digest& key : raised) next().Raise(key, waiter);
}

size_t AdmissionProvider::CountUrgent() const {
  return queue_.LengthAt(Priority::kWaitingRank) + queue_.LengthAt(Priority::kAutotune);
}

void AdmissionProvider::RaiseCall(const CallPtr& call, const CallContext& waiter) {
  call->context.priority = std::min(call->context.priority, waiter.priority);
  const auto own = call->tickets.find(waiter.principal);
  if (own != call->tickets.end()) return queue_.Raise(own->second, waiter.priority);
  // Its bytes are accounted for already.
  const absl::StatusOr<Ticket> ticket = queue_.Push(waiter, /*bytes=*/0);
  if (ticket.ok()) return AddTicket(call, waiter.principal, *ticket);
  // There is no place left for it, so it shares the first one.
  queue_.Raise(call->tickets.begin()->second, waiter.priority);
}

AdmissionStats AdmissionProvider::Stats() const {
  const MutexLock lock(mutex_);
  return {static_cast<size_t>(running_), queue_.length(), queue_.bytes(), expected_bytes_};
}

Gauge AdmissionProvider::QueuedGauge(Priority priority, std::string name) {
  const auto length = [this, priority] {
    const MutexLock lock(mutex_);
    return queue_.LengthAt(priority);
  };
  return {"queued", "Compiles that wait to be started.", length, {{"priority", std::move(name)}}};
}

}  // namespace kiln
