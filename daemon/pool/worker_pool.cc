// Threads:
//
// * Each slot has a thread, which alone talks to the slot's worker. It gets a worker first and a
//   task second, so a task waits in the queue while a zygote starts, and can be ended there.
// * There are more slots than compiles may run at the same time. So the next worker starts, and the
//   last ones end, beside a compile and not between two.
// * The keeper's thread (zygote_keeper.h) is the parent of the zygote.
// * Slots that wait notice that spare workers or the zygote have been idle for too long. The
//   deadline of a running task ends the poll in which the slot's thread waits for the worker. A
//   queued task's deadline counts once a slot takes the task.
// * A task or a place that is free wakes one slot with a worker and one without, and not all: of a
//   hundred slots, each would look at all others. A slot that stops waiting and takes no task wakes
//   another one.
// * Any thread may cancel: a queued task ends there and then; the slot's WakeEvent ends the poll of
//   a running one.
//
// A task is queued, running or done, and changes under mutex_. The thread that makes it done calls
// its callback, without mutex_, and before a killed worker is reaped.
//
// Workers belong to the generation of their zygote. When the pool lets the zygote go (idle, renewed
// or suspect after many crashes), idle workers end at once, busy ones after their compile, and the
// zygote with the last of them.
//
// A slot that cannot start a worker rests, and the others go on. When all slots rest, the queue
// fails.
#include "daemon/pool/worker_pool.h"

#include <algorithm>

#include "daemon/kernel/compiler_crash.h"
#include "daemon/pool/abort_diagnosis.h"
#include "daemon/process/work_directory.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kAttemptsMax = 2;
constexpr size_t kLastWordsBytes = 2 * limits::kKiB;
constexpr auto kCrashBudgetTime = std::chrono::hours(1);
// To end a worker and to start another takes less than a fourth of a compile.
constexpr int kSlotsPerSpare = 4;

absl::Status ShuttingDown() { return Unavailable("the worker pool is shutting down"); }

WorkerReply FailedReply(CompileFailure failure) {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kFailed;
  reply.failure = std::move(failure);
  return reply;
}

}  // namespace

struct WorkerPool::Task {
  enum class State { kQueued, kRunning, kDone };

  CallContext context;
  WorkerRequest request;
  Done done;
  State state = State::kQueued;
  Slot* slot = nullptr;   // while it runs
  bool is_ahead = false;  // nobody waits for it yet
  bool has_yielded = false;
  int attempts = 0;  // changed by the slot's thread, never while queued
  Cancellation::Registration registration;

  SteadyTime deadline() const { return context.deadline.value_or(SteadyTime::max()); }
};

struct WorkerPool::Slot {
  enum class Stage {
    kEmpty,     // without a worker until one is needed
    kResting,   // could not start a worker, and waits before it tries again
    kStarting,  // starts a worker
    kReady,     // its worker waits for a task
    kUsed       // its worker runs a task, or ends
  };

  std::string directory;
  WakeEvent wake;
  // Only the slot's thread uses these.
  std::unique_ptr<WorkerProcess> worker;
  int failures = 0;  // to start a worker, in a row
  SteadyTime rests_until{};
  // Under the pool's mutex.
  Stage stage = Stage::kEmpty;
  uint64_t generation = 0;  // of the worker's zygote
  std::thread thread;

  // True also while a worker is being started.
  bool HasWorker() const { return stage != Stage::kEmpty && stage != Stage::kResting; }
};

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : options_(std::move(options)),
      running_max_(std::clamp(options_.slots, 1, limits::kWorkersMax)),
      may_yield_(MayStopYielding()),
      used_at_(Steady::now()),
      idle_look_at_(used_at_ + options_.idle_time) {
  if (options_.eager) spares_ = running_max_;
  for (const std::string& directory : {options_.work_directory, options_.zygote.spawn.directory}) {
    if (directory.empty()) continue;
    if (const absl::Status made = MakeEmptyDirectory(directory); !made.ok()) {
      LogError("no work directory for workers", {{"path", directory}, {"error", Message(made)}});
    }
  }
  keeper_ = std::make_unique<ZygoteKeeper>(options_.zygote, [this] {
    // A slot that is about to wait has seen the state before, or will see the notification.
    { const MutexLock lock(mutex_); }
    WakeAll();
  });
  const int slots = running_max_ + 2 + running_max_ / kSlotsPerSpare;
  for (int i = 0; i < slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->directory = fmt::format("{}/slot-{}", options_.work_directory, i);
  }
  for (const auto& slot : slots_) {
    slot->thread = std::thread([this, &slot = *slot] { SlotLoop(slot); });
  }
}

WorkerPool::~WorkerPool() { Shutdown(Steady::now()); }

void WorkerPool::Submit(CallContext context, WorkerRequest request, Done done) {
  auto task = std::make_shared<Task>();
  task->context = std::move(context);
  task->request = std::move(request);
  task->done = std::move(done);
  task->is_ahead = IsAhead(task->context.priority);
  bool refused = false;
  {
    const MutexLock lock(mutex_);
    refused = refusing_;
    if (!refused) {
      queue_.push_back(task);
      used_at_ = Steady::now();
      in_use_ = true;
      spares_ = std::max(spares_, 1);
    }
  }
  if (refused) return Finish(task, ShuttingDown());
  WakeNext();
  // Without the mutex: the callback runs right here when the caller has gone already.
  auto registration = task->context.cancellation.OnCancel([this, weak = std::weak_ptr<Task>(task)] {
    if (const TaskPtr held = weak.lock()) Cancel(held);
  });
  const MutexLock lock(mutex_);
  if (task->state != Task::State::kDone) task->registration = std::move(registration);
}

void WorkerPool::Cancel(const TaskPtr& task) {
  {
    const MutexLock lock(mutex_);
    if (task->state == Task::State::kRunning) return task->slot->wake.Set();
    if (task->state == Task::State::kDone) return;
    std::erase(queue_, task);
  }
  Finish(task, Cancelled("the caller went away"));
}

void WorkerPool::WeighSession(Slot& slot) {
  slot.worker->SetLowWeight(!yielding_.empty() && std::ssize(yielding_) == stats_.running);
}

void WorkerPool::Raise(const Digest& key) {
  const MutexLock lock(mutex_);
  for (const TaskPtr& task : queue_) {
    if (task->request.key == key) task->is_ahead = false;
  }
  std::erase_if(yielding_, [&](const TaskPtr& task) KILN_REQUIRES(mutex_) {
    if (task->request.key != key) return false;
    task->is_ahead = false;
    task->slot->worker->StopYielding();
    task->slot->worker->SetLowWeight(false);
    return true;
  });
}

// A worker that yields would take its time to die, too.
bool WorkerPool::EndYielding(Slot& slot, const TaskPtr& task) {
  MutexLock lock(mutex_);
  if (yielding_.erase(task) > 0) WeighSession(slot);
  if (!task->has_yielded) return false;
  lock.Unlock();
  slot.worker->StopYielding();
  return true;
}

// The limit on a compile's time is no limit on how long others keep the cores from it.
bool WorkerPool::TryUrgently(Slot& slot, const TaskPtr& task) {
  slot.worker->Kill();
  const MutexLock lock(mutex_);
  task->is_ahead = task->has_yielded = false;
  --task->attempts;
  WakeAll();
  return TryAgain(task);
}

void WorkerPool::Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result) {
  Cancellation::Registration registration;
  Done done;
  bool is_last = false;
  {
    const MutexLock lock(mutex_);
    if (task->state == Task::State::kDone) return;
    if (task->state == Task::State::kRunning) {
      --stats_.running;
      yielding_.erase(task);
      WeighSession(*task->slot);
    }
    used_at_ = Steady::now();
    task->state = Task::State::kDone;
    registration = std::move(task->registration);
    done = std::move(task->done);
    is_last = stats_.running == 0;
  }
  // One more compile may run. After the last, Shutdown goes on, and spare workers may be too many.
  if (is_last) {
    WakeAll();
  } else {
    WakeNext();
  }
  // Waits for a cancellation under way, which takes the mutex.
  registration.reset();
  done(std::move(result));
}

void WorkerPool::SlotLoop(Slot& slot) {
  while (AwaitNeed(slot)) {
    if (!StartWorker(slot)) continue;
    if (const TaskPtr task = AwaitTask(slot)) RunTask(slot, task);
    EndWorker(slot);
  }
}

int WorkerPool::CountReady(bool starting_too) const {
  int ready = 0;
  for (const auto& slot : slots_) {
    const bool counts = slot->stage == Slot::Stage::kReady ||
                        (starting_too && slot->stage == Slot::Stage::kStarting);
    if (counts && slot->generation == generation_) ++ready;
  }
  return ready;
}

int WorkerPool::ReadyWanted() const {
  const int may_run = running_max_ - stats_.running;
  return std::max(spares_, std::min(may_run, static_cast<int>(queue_.size())));
}

bool WorkerPool::IsOfUse(const Slot& slot) const {
  return slot.generation == generation_ && slot.worker->zygote().IsAlive();
}

void WorkerPool::WakeNext() {
  task_due_.NotifyOne();
  worker_needed_.NotifyOne();
}

void WorkerPool::WakeAll() {
  task_due_.NotifyAll();
  worker_needed_.NotifyAll();
  changed_.NotifyAll();
}

void WorkerPool::Await(CondVar& woken, const std::function<bool()>& is_met) {
  while (true) {
    LookForIdleness(Steady::now());
    if (is_met()) return;
    woken.WaitUntil(mutex_, NextLook());
  }
}

bool WorkerPool::AwaitNeed(Slot& slot) {
  const MutexLock lock(mutex_);
  if (slot.stage == Slot::Stage::kResting) {
    changed_.WaitUntil(mutex_, slot.rests_until, [&]() KILN_REQUIRES(mutex_) {
      return stopping_ || slot.stage != Slot::Stage::kResting;
    });
  }
  slot.stage = Slot::Stage::kEmpty;
  const auto is_needed = [&]() KILN_REQUIRES(mutex_) {
    return CountReady(/*starting_too=*/true) < ReadyWanted();
  };
  Await(worker_needed_, [&]() KILN_REQUIRES(mutex_) { return stopping_ || is_needed(); });
  slot.stage = Slot::Stage::kStarting;
  slot.generation = generation_;
  if (is_needed()) worker_needed_.NotifyOne();
  return !stopping_;
}

bool WorkerPool::StartWorker(Slot& slot) {
  const absl::StatusOr<std::shared_ptr<Zygote>> zygote = keeper_->Get();
  if (!zygote.ok()) {
    LetRest(slot, zygote.status(), /*others_may_do_better=*/false);
    return false;
  }
  auto worker = StartIn(slot, *zygote);
  if (worker.ok()) {
    slot.worker = *std::move(worker);
    slot.failures = 0;
    counters_.started.Add();
    const MutexLock lock(mutex_);
    ++stats_.workers;
    return true;
  }
  // The keeper replaces a zygote that died just now.
  if ((*zygote)->IsAlive()) LetRest(slot, worker.status(), /*others_may_do_better=*/true);
  return false;
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerPool::StartIn(
    Slot& slot, const std::shared_ptr<Zygote>& zygote) {
  // Without it nothing could be cancelled.
  KILN_RETURN_IF_ERROR(slot.wake.Open());
  auto worker = WorkerProcess::Start(zygote, slot.directory, options_.worker_limits);
  if (!absl::IsNotFound(worker.status())) return worker;
  // Somebody tidied up beneath a running daemon.
  KILN_RETURN_IF_ERROR(RestoreDirectory(options_.work_directory));
  return WorkerProcess::Start(zygote, slot.directory, options_.worker_limits);
}

void WorkerPool::LetRest(Slot& slot, const absl::Status& why, bool others_may_do_better) {
  const auto rest = std::min(limits::kWorkerRetryFirst * (1 << std::min(slot.failures++, 10)),
                             limits::kWorkerRetryLast);
  Queue failed;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    spares_ = 0;  // until the next request
    slot.stage = Slot::Stage::kResting;
    slot.rests_until = Steady::now() + rest;
    const bool is_hopeless = std::none_of(slots_.begin(), slots_.end(), [&](const auto& other) {
      return other->HasWorker() || (others_may_do_better && other->stage == Slot::Stage::kEmpty);
    });
    if (is_hopeless) {
      // The next request tries again at once.
      for (const auto& other : slots_) other->stage = Slot::Stage::kEmpty;
      failed.swap(queue_);
    }
  }
  LogWarning("no worker", {{"slot", slot.directory}, {"error", Message(why)}});
  WakeAll();
  // Always UNAVAILABLE: what this machine lacks says nothing of the request.
  for (const TaskPtr& task : failed) Finish(task, Unavailable("no worker: {}", Message(why)));
}

WorkerPool::TaskPtr WorkerPool::AwaitTask(Slot& slot) {
  const MutexLock lock(mutex_);
  slot.stage = Slot::Stage::kReady;
  const auto has_task = [&]() KILN_REQUIRES(mutex_) {
    return !queue_.empty() && stats_.running < running_max_;
  };
  Await(task_due_, [&]() KILN_REQUIRES(mutex_) {
    const bool is_one_too_many = CountReady(/*starting_too=*/false) > ReadyWanted();
    return stopping_ || has_task() || !IsOfUse(slot) || is_one_too_many;
  });
  const bool takes_task = !stopping_ && has_task() && IsOfUse(slot) && slot.worker->IsReady();
  if (!stopping_ && !has_task() && IsOfUse(slot)) counters_.idled.Add();
  slot.stage = Slot::Stage::kUsed;
  worker_needed_.NotifyOne();
  if (!takes_task) {
    task_due_.NotifyOne();  // it may have been woken for one
    return nullptr;
  }
  TaskPtr task = std::move(queue_.front());
  queue_.pop_front();
  task->state = Task::State::kRunning;
  task->slot = &slot;
  slot.wake.Clear();
  ++stats_.running;
  if (may_yield_ && task->is_ahead) {
    yielding_.insert(task);
    task->has_yielded = true;
    slot.worker->Yield();
  }
  if (task->is_ahead && options_.jobs_ask()) slot.worker->LeaveCores();
  WeighSession(slot);
  busy_peak_ = std::max(busy_peak_, stats_.running);
  spares_ = std::max(spares_, stats_.running);
  return task;
}

void WorkerPool::EndWorker(Slot& slot) {
  slot.worker.reset();
  const MutexLock lock(mutex_);
  --stats_.workers;
}

void WorkerPool::RunTask(Slot& slot, const TaskPtr& task) {
  const SteadyTime limit = Steady::now() + options_.compile_time_max;
  FrameWait wait;
  wait.deadline = std::min(limit, task->deadline());
  wait.wake_fd = slot.wake.fd();
  ++task->attempts;
  absl::StatusOr<WorkerReply> reply = slot.worker->Run(task->request, wait);
  // An answer makes room for the next compile first.
  const bool has_answer = reply.ok() && reply->outcome == WorkerReply::Outcome::kCompiled;
  const bool has_yielded = !has_answer && EndYielding(slot, task);
  if (absl::IsDeadlineExceeded(reply.status()) && limit < task->deadline()) {
    if (has_yielded && TryUrgently(slot, task)) return;
    return FinishKilled(slot, task,
                        DeadlineExceeded("the compile took longer than the daemon's limit of {} ms",
                                         options_.compile_time_max.count()));
  }
  if (absl::IsDeadlineExceeded(reply.status()) || absl::IsCancelled(reply.status())) {
    return FinishKilled(slot, task, reply.status());
  }
  if (!reply.ok()) return FinishCrashed(slot, task, std::string(Message(reply.status())), {});
  const CompileFailure& failure = reply->failure;
  switch (reply->outcome) {
    case WorkerReply::Outcome::kCrashed:
      return FinishCrashed(slot, task, "the compiler caught a signal: " + failure.message, failure);
    case WorkerReply::Outcome::kUnable:
      LogWarning("a worker cannot compile", {{"stage", failure.stage}, {"error", failure.message}});
      return Finish(task, absl::Status(failure.code, failure.message));
    case WorkerReply::Outcome::kFailed:
      if (!failure.deterministic && task->attempts < kAttemptsMax) {
        return FinishCrashed(slot, task, failure.message, {});
      }
      break;
    case WorkerReply::Outcome::kCompiled:
      break;
  }
  FinishAnswered(task, *std::move(reply));
  if (has_answer) EndYielding(slot, task);
}

void WorkerPool::FinishAnswered(const TaskPtr& task, WorkerReply reply) {
  counters_.compiles.Add();
  counters_.cpu_micros.Add(reply.usage.cpu_micros);
  Finish(task, std::move(reply));
}

void WorkerPool::FinishKilled(Slot& slot, const TaskPtr& task, absl::Status why) {
  slot.worker->Kill();
  counters_.killed.Add();
  {
    const MutexLock lock(mutex_);
    const bool is_theirs = task->context.cancellation.IsCancelled();
    if (stopping_ && absl::IsCancelled(why) && !is_theirs) why = ShuttingDown();
  }
  Finish(task, std::move(why));
}

void WorkerPool::FinishCrashed(Slot& slot, const TaskPtr& task, const std::string& what,
                               const CompileFailure& said) {
  const std::string output = slot.worker->LastWords(limits::kDiagnosticsBytesMax);
  const std::string last_words =
      output.substr(output.size() - std::min(output.size(), kLastWordsBytes));
  const std::string ending = slot.worker->End();
  // The end of the output may have lost what `said` still has.
  const std::string words = said.message.empty() ? output : output + "\n" + said.message;
  if (auto aborted = DiagnoseAbort(words, said.stage)) {
    counters_.aborted.Add();
    return FinishAnswered(task, FailedReply(*std::move(aborted)));
  }
  counters_.crashed.Add();
  bool again = false;
  {
    const MutexLock lock(mutex_);
    if (ExceedsCrashBudget()) {
      LogError("zygote replaced after many crashes", {{"crashes", options_.crashes_per_hour}});
      LetZygoteGo();
    }
    again = task->attempts < kAttemptsMax && TryAgain(task);
  }
  LogWarning(
      "worker crashed",
      {{"what", what}, {"ending", ending}, {"tried_again", again}, {"last_words", last_words}});
  if (again) return WakeAll();
  // One crash proves nothing of the source.
  if (task->attempts < kAttemptsMax) {
    const bool is_cancelled = task->context.cancellation.IsCancelled();
    return Finish(task, is_cancelled ? Cancelled("the caller went away") : ShuttingDown());
  }
  Finish(task, MarkCompilerCrash(Internal("the compiler crashed{}: {}; its last words: {}",
                                          ending.empty() ? "" : fmt::format(" ({})", ending), what,
                                          last_words)));
}

bool WorkerPool::TryAgain(const TaskPtr& task) {
  // Under the mutex: a cancellation that comes later finds the task in the queue.
  if (refusing_ || task->context.cancellation.IsCancelled()) return false;
  task->state = Task::State::kQueued;
  task->slot = nullptr;
  --stats_.running;
  queue_.push_front(task);
  return true;
}

bool WorkerPool::ExceedsCrashBudget() {
  const SteadyTime now = Steady::now();
  if (crashes_ == 0 || now - crashes_since_ >= kCrashBudgetTime) {
    crashes_since_ = now;
    crashes_ = 0;
  }
  const bool exceeds = ++crashes_ == options_.crashes_per_hour;
  if (exceeds) counters_.zygotes_replaced.Add();
  return exceeds;
}

void WorkerPool::LookForIdleness(SteadyTime now) {
  if (options_.idle_time.count() > 0 && now >= idle_look_at_) {
    spares_ = std::min(spares_, std::max(busy_peak_, options_.idle_workers_min));
    busy_peak_ = stats_.running;
    idle_look_at_ = now + options_.idle_time;
    WakeAll();
  }
  const bool is_idle = ZygoteMayIdle() && stats_.running == 0 && queue_.empty() &&
                       now - used_at_ >= options_.zygote_idle_time;
  if (!is_idle) return;
  in_use_ = false;
  spares_ = 0;
  LetZygoteGo();
}

bool WorkerPool::ZygoteMayIdle() const {
  return in_use_ && !options_.eager && options_.zygote_idle_time.count() > 0;
}

SteadyTime WorkerPool::NextLook() const {
  const SteadyTime now = Steady::now();
  SteadyTime next = now + std::chrono::hours(1);
  if (options_.idle_time.count() > 0) next = std::min(next, idle_look_at_);
  if (ZygoteMayIdle()) {
    const bool is_busy = stats_.running > 0 || !queue_.empty();
    next = std::min(next, (is_busy ? now : used_at_) + options_.zygote_idle_time);
  }
  return next;
}

void WorkerPool::Renew() {
  const MutexLock lock(mutex_);
  LetZygoteGo();
}

void WorkerPool::LetZygoteGo() {
  // In this order: a slot of the new generation gets a new zygote.
  keeper_->LetGo();
  ++generation_;
  WakeAll();
}

void WorkerPool::Shutdown(SteadyTime deadline) {
  Queue queued;
  {
    const MutexLock lock(mutex_);
    refusing_ = true;
    queued.swap(queue_);
  }
  for (const TaskPtr& task : queued) Finish(task, ShuttingDown());
  {
    const MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, deadline,
                       [this]() KILN_REQUIRES(mutex_) { return stats_.running == 0; });
    stopping_ = true;
  }
  for (const auto& slot : slots_) slot->wake.Set();
  WakeAll();
  keeper_->Refuse();
  for (const auto& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
  keeper_->Stop();
}

PoolStats WorkerPool::Stats() const {
  PoolStats stats;
  {
    const MutexLock lock(mutex_);
    stats = stats_;
    stats.queued = queue_.size();
  }
  stats.zygote = keeper_->State();
  return stats;
}

}  // namespace kiln
