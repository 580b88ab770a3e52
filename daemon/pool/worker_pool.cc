// Who owns which thread, and what holds when.
//
// * One thread per slot owns that slot's worker process and is the only one to talk to it. It gets
//   a worker first and a task second: a task is never stuck behind a zygote that starts, and waits
//   in the queue, where anyone may end it.
// * The keeper's thread (zygote_keeper.h) is the parent of the zygote.
// * One more thread watches the clock: it ends queued tasks whose deadline passes, and has idle
//   workers and an idle zygote end. Once a task runs, its slot's thread watches its deadline, in
//   the same poll that waits for the worker.
// * Cancelling comes from any thread: a queued task is ended there and then; for a running one the
//   slot's WakeEvent ends the poll.
//
// A task is in exactly one state, changed under mutex_: queued, running, done. Whoever moves it to
// done calls its callback, after the mutex has been released. The callback hears of a kill before
// the worker is reaped and replaced.
//
// A source may have taken its worker over, and would have a say in what else it compiles, which is
// stored for everybody. So a worker compiles once for whoever is not trusted (the header says who
// is), and ends; its slot gets the next one at once. While such a compile runs there is to be a
// fresh worker besides, if a slot is free: who asks for one kernel after the other waits for no
// fork. Otherwise a worker serves one principal, whom the first task that it takes decides on.
//
// What is queued is stuck when no waiting worker may run it. For each task that is, a slot is on
// its way to a fresh worker, if there is one that can be: a slot without a worker or, where all
// have one, a slot whose worker has served others and waits; so two trusted users of a pool with
// room for both keep a worker each. Whoever changes what is queued, or which slots wait, wakes the
// others, and they look again. A waiting worker does not give way to what came after its own next
// task, nor does it run what came after a task that is stuck: the order is that of arrival all the
// same.
//
// Since any of the workers of a principal may get a task, none is idle for long under a light load;
// so what counts as idle is how many of them were never busy at the same time.
//
// A worker belongs to the generation of its zygote. When that is let go (idle, or under suspicion
// after many crashes), its workers finish what they run and end, and with the last of them the
// zygote does.
//
// A task that crashed a worker is tried again on a fresh worker, one that has compiled nothing, not
// on another that may have died of the same cause. Such tasks stand at the front of the queue, and
// are stuck as above until there is one: the slot that crashed replaces its worker, and a fresh
// worker takes the front of the queue.
//
// A slot that cannot have a worker, of which there may be no more descriptors or processes for a
// moment, rests for a while, and the others go on with what is queued. Where none of them has a
// worker, is on its way to one or could try, the queue has nothing to wait for, and fails.
#include "daemon/pool/worker_pool.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "daemon/kernel/compiler_crash.h"
#include "daemon/pool/abort_diagnosis.h"
#include "daemon/process/unshared.h"
#include "daemon/process/work_directory.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kAttemptsMax = 2;
constexpr size_t kLastWordsBytes = 2 * limits::kKiB;
constexpr auto kCrashBudgetTime = std::chrono::hours(1);

std::string EndOf(const std::string& text, size_t bytes_max) {
  return text.size() <= bytes_max ? text : text.substr(text.size() - bytes_max);
}

// Whether what it compiles may be given a worker that goes on afterwards.
bool IsTrusted(const CallContext& context, std::optional<uid_t> shared_uid) {
  const uid_t uid = context.principal.uid;
  return !context.source_is_anybodys && uid != shared_uid && (uid == 0 || uid == ::geteuid());
}

}  // namespace

struct WorkerPool::Task {
  enum class State { kQueued, kRunning, kDone };

  CallContext context;
  WorkerRequest request;
  Done done;
  bool is_trusted = false;
  State state = State::kQueued;
  Slot* slot = nullptr;  // while it runs
  // Changed by the slot's thread, never while queued.
  int attempts = 0;
  bool was_unready = false;  // a worker that it was given
  Cancellation::Registration registration;

  SteadyTime deadline() const { return context.deadline.value_or(SteadyTime::max()); }
  bool NeedsFreshWorker() const { return attempts > 0 || !is_trusted; }
};

struct WorkerPool::Slot {
  enum class Stage {
    kEmpty,     // without a worker until one is needed
    kResting,   // could not have one, though needed, and waits before it tries again
    kStarting,  // on its way to a fresh worker
    kReady,     // waits with a worker
    kBusy       // runs a task
  };

  std::string directory;
  WakeEvent wake;
  // The slot's thread only.
  std::unique_ptr<WorkerProcess> worker;
  bool is_surplus = false;  // its worker is, so it shall not have another
  int failures = 0;         // to start a worker, in a row
  SteadyTime rests_until{};
  // Under the pool's mutex.
  Stage stage = Stage::kEmpty;
  uint64_t generation = 0;          // of the worker's zygote
  std::optional<Principal> served;  // by its worker; none: it is fresh
  bool is_spent = false;            // its worker is, once it has answered
  std::thread thread;

  // Or is on its way to one.
  bool HasWorker() const { return stage != Stage::kEmpty && stage != Stage::kResting; }

  bool MayRun(const Task& task) const {
    return !served || (!task.NeedsFreshWorker() && task.context.principal == *served);
  }
};

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : options_(std::move(options)),
      used_at_(Steady::now()),
      idle_look_at_(used_at_ + options_.idle_time) {
  stats_.slots = std::clamp(options_.slots, 1, limits::kWorkersMax);
  for (const std::string& directory : {options_.work_directory, options_.zygote.spawn.directory}) {
    if (directory.empty()) continue;
    if (const absl::Status made = MakeEmptyDirectory(directory); !made.ok()) {
      LogError("no work directory for workers", {{"path", directory}, {"error", Message(made)}});
    }
  }
  keeper_ = std::make_unique<ZygoteKeeper>(options_.zygote, [this] {
    // Empty, but needed: a slot that is about to wait must have seen the state before, or will see
    // the notification.
    { std::lock_guard lock(mutex_); }
    work_.notify_all();
  });
  for (int i = 0; i < stats_.slots; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->directory = fmt::format("{}/slot-{}", options_.work_directory, i);
    if (options_.eager) slots_.back()->stage = Slot::Stage::kStarting;
  }
  for (const auto& slot : slots_) {
    slot->thread = std::thread([this, &slot = *slot] { SlotLoop(slot); });
  }
  clock_watch_ = std::thread([this] { WatchClock(); });
}

WorkerPool::~WorkerPool() { Shutdown(Steady::now()); }

void WorkerPool::Submit(CallContext context, WorkerRequest request, Done done) {
  auto task = std::make_shared<Task>();
  task->context = std::move(context);
  task->is_trusted = IsTrusted(task->context, options_.shared_uid);
  task->request = std::move(request);
  task->done = std::move(done);
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    refused = refusing_;
    if (!refused) {
      queue_.push_back(task);
      used_at_ = Steady::now();
      const bool was_in_use = std::exchange(in_use_, true);
      if (!was_in_use || task->deadline() < next_look_) clock_changed_.notify_all();
    }
  }
  if (refused) return Finish(task, Unavailable("the worker pool is shutting down"));
  work_.notify_all();
  // Outside the lock, because the callback runs right here when the caller has gone already.
  auto registration = task->context.cancellation.OnCancel([this, weak = std::weak_ptr<Task>(task)] {
    if (const TaskPtr held = weak.lock()) Cancel(held);
  });
  std::lock_guard lock(mutex_);
  if (task->state != Task::State::kDone) task->registration = std::move(registration);
}

void WorkerPool::Cancel(const TaskPtr& task) {
  {
    std::lock_guard lock(mutex_);
    if (task->state == Task::State::kRunning) return task->slot->wake.Set();
    if (task->state == Task::State::kDone) return;
    std::erase(queue_, task);
  }
  Finish(task, Cancelled("the caller went away"));
}

void WorkerPool::Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result) {
  Cancellation::Registration registration;
  Done done;
  {
    std::lock_guard lock(mutex_);
    if (task->state == Task::State::kDone) return;
    if (task->state == Task::State::kRunning) --stats_.running;
    used_at_ = Steady::now();
    task->state = Task::State::kDone;
    registration = std::move(task->registration);
    done = std::move(task->done);
  }
  idle_.notify_all();
  // Waits for a cancellation under way, which takes the mutex: so, not under it.
  registration.Reset();
  done(std::move(result));
}

void WorkerPool::FailQueued(const absl::Status& failure) {
  std::deque<TaskPtr> failed;
  {
    std::lock_guard lock(mutex_);
    failed.swap(queue_);
  }
  for (const TaskPtr& task : failed) Finish(task, Unshared(failure));
}

void WorkerPool::WatchClock() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const SteadyTime now = Steady::now();
    const std::vector<TaskPtr> late = TakeLate(now);
    const bool zygote_is_idle = LookForIdleness(now);
    if (!late.empty() || zygote_is_idle) {
      lock.unlock();
      for (const TaskPtr& task : late) {
        Finish(task, DeadlineExceeded("no worker was free before the caller's deadline"));
      }
      if (zygote_is_idle) LetZygoteGo();
      lock.lock();
      continue;
    }
    next_look_ = NextLook();
    if (next_look_ == SteadyTime::max()) {
      clock_changed_.wait(lock);
    } else {
      clock_changed_.wait_until(lock, next_look_);
    }
  }
}

std::vector<WorkerPool::TaskPtr> WorkerPool::TakeLate(SteadyTime now) {
  std::vector<TaskPtr> late;
  next_deadline_ = SteadyTime::max();
  std::erase_if(queue_, [&](const TaskPtr& task) {
    if (task->deadline() > now) {
      next_deadline_ = std::min(next_deadline_, task->deadline());
      return false;
    }
    late.push_back(task);
    return true;
  });
  return late;
}

bool WorkerPool::LookForIdleness(SteadyTime now) {
  if (options_.idle_time.count() > 0 && now >= idle_look_at_) {
    // Not those of stats_: a worker that is to end has been counted before, and takes its time.
    const int staying = CountSlots([](const Slot& slot) {
      return slot.stage == Slot::Stage::kReady || slot.stage == Slot::Stage::kBusy;
    });
    surplus_ = std::max(0, staying - std::max(busy_peak_, options_.idle_workers_min));
    busy_peak_ = stats_.running;
    idle_look_at_ = now + options_.idle_time;
    if (surplus_ > 0) work_.notify_all();
  }
  const bool is_idle = in_use_ && !options_.eager && options_.zygote_idle_time.count() > 0 &&
                       stats_.running == 0 && queue_.empty() &&
                       now - used_at_ >= options_.zygote_idle_time;
  if (is_idle) in_use_ = false;
  return is_idle;
}

SteadyTime WorkerPool::NextLook() const {
  SteadyTime next = next_deadline_;
  if (options_.idle_time.count() > 0) next = std::min(next, idle_look_at_);
  if (in_use_ && !options_.eager && options_.zygote_idle_time.count() > 0) {
    const bool is_busy = stats_.running > 0 || !queue_.empty();
    next = std::min(next, (is_busy ? Steady::now() : used_at_) + options_.zygote_idle_time);
  }
  return next;
}

void WorkerPool::LetZygoteGo() {
  // In this order: whoever sees the new generation gets a new zygote.
  keeper_->LetGo();
  {
    std::lock_guard lock(mutex_);
    ++generation_;
  }
  work_.notify_all();
}

void WorkerPool::SlotLoop(Slot& slot) {
  while (true) {
    if (const TaskPtr task = NextTask(slot)) {
      RunTask(slot, task);
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    if (slot.worker != nullptr) {
      EndWorker(slot);  // dead, or its zygote is, or of no more use
    } else {
      StartWorker(slot);
    }
  }
  if (slot.worker != nullptr) EndWorker(slot);
}

WorkerPool::Queue::const_iterator WorkerPool::FirstTaskFor(const Slot& slot) const {
  return std::find_if(queue_.begin(), queue_.end(),
                      [&](const TaskPtr& task) { return slot.MayRun(*task); });
}

int WorkerPool::CountSlots(const std::function<bool(const Slot&)>& is_meant) const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(),
                                        [&](const auto& slot) { return is_meant(*slot); }));
}

bool WorkerPool::IsStuck(const Task& task) const {
  return std::none_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot->stage == Slot::Stage::kReady && !IsOutdated(*slot) && slot->MayRun(task);
  });
}

bool WorkerPool::FreshWorkerIsMissing(Queue::const_iterator end) const {
  const auto stuck =
      std::count_if(queue_.begin(), end, [this](const TaskPtr& task) { return IsStuck(*task); });
  return stuck > CountSlots([](const Slot& slot) { return slot.stage == Slot::Stage::kStarting; });
}

bool WorkerPool::SpareIsMissing() const {
  const bool is_wanted = CountSlots([](const Slot& slot) {
                           return slot.stage == Slot::Stage::kBusy && slot.is_spent;
                         }) > 0;
  return is_wanted && CountSlots([this](const Slot& slot) {
                        const bool is_fresh =
                            slot.stage == Slot::Stage::kReady && !slot.served && !IsOutdated(slot);
                        return is_fresh || slot.stage == Slot::Stage::kStarting;
                      }) == 0;
}

bool WorkerPool::MustGiveWay(const Slot& slot) const {
  return CountSlots([](const Slot& other) { return other.stage == Slot::Stage::kEmpty; }) == 0 &&
         FreshWorkerIsMissing(FirstTaskFor(slot));
}

bool WorkerPool::SlotIsNeeded(const Slot& slot) const {
  if (stopping_) return true;
  if (slot.worker != nullptr) return WorkerIsNeeded(slot);
  if (slot.stage == Slot::Stage::kResting) return false;
  return slot.stage == Slot::Stage::kStarting || FreshWorkerIsMissing(queue_.end()) ||
         SpareIsMissing();
}

bool WorkerPool::WorkerIsNeeded(const Slot& slot) const {
  return FirstTaskFor(slot) != queue_.end() || MustGiveWay(slot) || surplus_ > 0 ||
         IsOutdated(slot) || !slot.worker->zygote().IsAlive();
}

bool WorkerPool::IsOutdated(const Slot& slot) const { return slot.generation != generation_; }

void WorkerPool::Vacate(Slot& slot) {
  slot.stage = Slot::Stage::kEmpty;
  if (!slot.is_surplus && (options_.eager || FreshWorkerIsMissing(queue_.end()))) {
    slot.stage = Slot::Stage::kStarting;
  }
}

WorkerPool::TaskPtr WorkerPool::NextTask(Slot& slot) {
  std::unique_lock lock(mutex_);
  if (slot.worker != nullptr) slot.stage = Slot::Stage::kReady;
  while (!SlotIsNeeded(slot)) {
    if (slot.stage != Slot::Stage::kResting) {
      work_.wait(lock);
    } else if (work_.wait_until(lock, slot.rests_until) == std::cv_status::timeout) {
      slot.stage = Slot::Stage::kEmpty;
    }
  }
  if (stopping_) return nullptr;
  TaskPtr task = slot.worker == nullptr ? nullptr : TakeTask(slot);
  if (slot.worker == nullptr) slot.stage = Slot::Stage::kStarting;
  // Another slot may have to grow into this one's place, or beside it.
  if (!queue_.empty() || SpareIsMissing()) work_.notify_all();
  return task;
}

WorkerPool::TaskPtr WorkerPool::TakeTask(Slot& slot) {
  const bool is_sound = !IsOutdated(slot) && slot.worker->IsReady();
  const bool gives_way = is_sound && MustGiveWay(slot);
  if (gives_way) ++stats_.gave_way;
  const bool is_of_use = is_sound && !gives_way;
  const auto first = FirstTaskFor(slot);
  if (!is_of_use || first == queue_.end()) {
    slot.is_surplus = is_of_use && surplus_ > 0;
    if (slot.is_surplus) --surplus_;
    Vacate(slot);
    return nullptr;
  }
  TaskPtr task = *first;
  queue_.erase(first);
  task->state = Task::State::kRunning;
  task->slot = &slot;
  slot.stage = Slot::Stage::kBusy;
  slot.served = task->context.principal;
  slot.is_spent = !task->is_trusted;
  slot.wake.Clear();
  ++stats_.running;
  busy_peak_ = std::max(busy_peak_, stats_.running);
  return task;
}

void WorkerPool::StartWorker(Slot& slot) {
  {
    std::lock_guard lock(mutex_);
    slot.generation = generation_;
    surplus_ = 0;  // more are needed, not fewer
  }
  const absl::StatusOr<std::shared_ptr<Zygote>> zygote = keeper_->Get();
  absl::Status failure = zygote.status();
  if (zygote.ok()) {
    auto worker = StartIn(slot, *zygote);
    if (worker.ok()) {
      slot.worker = *std::move(worker);
      slot.failures = 0;
      std::lock_guard lock(mutex_);
      ++stats_.started;
      ++stats_.workers;
      return;
    }
    failure = worker.status();
    // A zygote that died just now is the keeper's to replace; what waits may go on waiting.
    if (!(*zygote)->IsAlive()) {
      std::lock_guard lock(mutex_);
      Vacate(slot);
      work_.notify_all();
      return;
    }
  }
  LetRest(slot, failure, /*others_may_do_better=*/zygote.ok());
}

void WorkerPool::LetRest(Slot& slot, const absl::Status& why, bool others_may_do_better) {
  const auto rest = std::min(limits::kWorkerRetryFirst * (1 << std::min(slot.failures++, 10)),
                             limits::kWorkerRetryLast);
  Queue failed;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    slot.stage = Slot::Stage::kResting;
    slot.rests_until = Steady::now() + rest;
    const bool is_hopeless =
        CountSlots([&](const Slot& other) {
          return other.HasWorker() || (others_may_do_better && other.stage == Slot::Stage::kEmpty);
        }) == 0;
    if (is_hopeless) {
      // Whoever asks next finds out whether it is so still.
      for (const auto& other : slots_) other->stage = Slot::Stage::kEmpty;
      failed.swap(queue_);
    }
  }
  LogWarning("no worker", {{"slot", slot.directory}, {"error", Message(why)}});
  work_.notify_all();
  // Whatever this machine lacks at the moment, a file or a descriptor: it says nothing of the
  // request, as NOT_FOUND or RESOURCE_EXHAUSTED would.
  for (const TaskPtr& task : failed) Finish(task, Unavailable("no worker: {}", Message(why)));
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

void WorkerPool::EndWorker(Slot& slot) {
  slot.worker.reset();
  std::lock_guard lock(mutex_);
  slot.served.reset();
  slot.is_spent = false;
  --stats_.workers;
  if (std::exchange(slot.is_surplus, false)) ++stats_.idled;
}

void WorkerPool::ReplaceWorker(Slot& slot) {
  {
    std::lock_guard lock(mutex_);
    slot.stage = Slot::Stage::kStarting;
  }
  EndWorker(slot);
}

void WorkerPool::RunTask(Slot& slot, const TaskPtr& task) {
  if (const absl::Status ready = slot.worker->Prepare(); !ready.ok()) {
    return FinishUnready(slot, task, ready);
  }
  const SteadyTime limit = Steady::now() + options_.compile_time_max;
  FrameWait wait;
  wait.deadline = std::min(limit, task->deadline());
  wait.wake_fd = slot.wake.fd();
  ++task->attempts;
  absl::StatusOr<WorkerReply> reply = slot.worker->Run(task->request, wait);
  if (slot.worker->TookTooMuch()) return FinishOverfull(slot, task, reply.status());
  const bool is_over =
      absl::IsDeadlineExceeded(reply.status()) || absl::IsCancelled(reply.status());
  if (!reply.ok() && !is_over) {
    return CrashTask(slot, task, std::string(Message(reply.status())));
  }
  if (absl::IsDeadlineExceeded(reply.status()) && limit < task->deadline()) {
    return KillTask(slot, task,
                    DeadlineExceeded("the compile took longer than the daemon's limit of {} ms",
                                     options_.compile_time_max.count()));
  }
  if (!reply.ok()) return KillTask(slot, task, reply.status());
  if (reply->outcome == WorkerReply::Outcome::kCrashed) {
    return CrashTask(slot, task, "the compiler caught a signal: " + reply->failure.message,
                     &reply->failure);
  }
  if (reply->outcome == WorkerReply::Outcome::kUnable) {
    FinishUnable(task, reply->failure);
    if (slot.is_spent) ReplaceWorker(slot);
    return;
  }
  const bool undecided =
      reply->outcome == WorkerReply::Outcome::kFailed && !reply->failure.deterministic;
  if (undecided && task->attempts < kAttemptsMax)
    return CrashTask(slot, task, reply->failure.message);
  const WorkerUsage usage = reply->usage;
  {
    std::lock_guard lock(mutex_);
    ++stats_.compiles;
    stats_.compile_cpu_micros += usage.cpu_micros;
    // Free from now on, or about to be: who hears of the answer and asks again at once shall find
    // it so.
    slot.stage = slot.is_spent ? Slot::Stage::kStarting : Slot::Stage::kReady;
  }
  Finish(task, std::move(reply));
  if (slot.is_spent) return ReplaceWorker(slot);
  RecycleIfOld(slot, usage);
}

void WorkerPool::FinishUnready(Slot& slot, const TaskPtr& task, const absl::Status& why) {
  LogWarning("worker not made ready", {{"slot", slot.directory}, {"error", Message(why)}});
  ReplaceWorker(slot);
  bool again = false;
  if (!std::exchange(task->was_unready, true)) {
    std::lock_guard lock(mutex_);
    again = TryAgain(task);
  }
  if (again) return work_.notify_all();
  Finish(task, task->context.cancellation.IsCancelled()
                   ? Cancelled("the caller went away")
                   : Unavailable("no worker: {}", Message(why)));
}

bool WorkerPool::TryAgain(const TaskPtr& task) {
  // Under the mutex: a cancellation that comes later finds the task in the queue.
  if (refusing_ || task->context.cancellation.IsCancelled()) return false;
  task->state = Task::State::kQueued;
  task->slot = nullptr;
  --stats_.running;
  queue_.push_front(task);
  clock_changed_.notify_all();
  return true;
}

void WorkerPool::KillTask(Slot& slot, const TaskPtr& task, const absl::Status& why) {
  slot.worker->Kill();
  bool by_shutdown = false;
  {
    std::lock_guard lock(mutex_);
    ++stats_.killed;
    by_shutdown = stopping_ && absl::IsCancelled(why) && !task->context.cancellation.IsCancelled();
  }
  Finish(task, by_shutdown ? Unavailable("the worker pool is shutting down") : why);
  ReplaceWorker(slot);
}

void WorkerPool::CrashTask(Slot& slot, const TaskPtr& task, const std::string& what,
                           const CompileFailure* said) {
  const std::string output = slot.worker->LastWords(limits::kDiagnosticsBytesMax);
  const std::string last_words = EndOf(output, kLastWordsBytes);
  const std::string ending = slot.worker->End();
  ReplaceWorker(slot);
  // The worker may have read what has left the end of the output by now.
  std::optional<CompileFailure> aborted =
      said == nullptr ? DiagnoseAbort(output, "")
                      : DiagnoseAbort(output + "\n" + said->message, said->stage);
  if (aborted) return FinishAborted(task, *std::move(aborted));
  bool again = false;
  bool stopping = false;
  bool distrusts_zygote = false;
  {
    std::lock_guard lock(mutex_);
    ++stats_.crashed;
    distrusts_zygote = ExceedsCrashBudget(Steady::now());
    stopping = stopping_;
    again = task->attempts < kAttemptsMax && TryAgain(task);
  }
  LogWarning(
      "worker crashed",
      {{"what", what}, {"ending", ending}, {"tried_again", again}, {"last_words", last_words}});
  if (distrusts_zygote) {
    LogError("zygote replaced after many crashes", {{"crashes", options_.crashes_per_hour}});
    LetZygoteGo();
  }
  if (again) return work_.notify_all();
  if (stopping) return Finish(task, Unavailable("the worker pool is shutting down"));
  // One crash proves nothing, so it says nothing of the source.
  if (task->attempts < kAttemptsMax) {
    return Finish(task, task->context.cancellation.IsCancelled()
                            ? Cancelled("the caller went away")
                            : Unavailable("the worker pool is shutting down"));
  }
  Finish(task, MarkCompilerCrash(Internal("the compiler crashed{}: {}; its last words: {}",
                                          ending.empty() ? "" : fmt::format(" ({})", ending), what,
                                          last_words)));
}

void WorkerPool::FinishAborted(const TaskPtr& task, CompileFailure failure) {
  {
    std::lock_guard lock(mutex_);
    ++stats_.aborted;
    ++stats_.compiles;
  }
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kFailed;
  reply.failure = std::move(failure);
  Finish(task, std::move(reply));
}

void WorkerPool::FinishOverfull(Slot& slot, const TaskPtr& task, const absl::Status& why) {
  slot.worker->Kill();
  {
    std::lock_guard lock(mutex_);
    ++stats_.killed;
    ++stats_.compiles;
  }
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kFailed;
  reply.failure.code = absl::StatusCode::kResourceExhausted;
  reply.failure.message = std::string(Message(why));
  Finish(task, std::move(reply));
  ReplaceWorker(slot);
}

void WorkerPool::FinishUnable(const TaskPtr& task, const CompileFailure& failure) {
  LogWarning("a worker cannot compile", {{"stage", failure.stage}, {"error", failure.message}});
  Finish(task, absl::Status(failure.code, failure.message));
}

bool WorkerPool::ExceedsCrashBudget(SteadyTime now) {
  if (crashes_ == 0 || now - crashes_since_ >= kCrashBudgetTime) {
    crashes_since_ = now;
    crashes_ = 0;
  }
  const bool exceeds = ++crashes_ == options_.crashes_per_hour;
  if (exceeds) ++stats_.zygotes_replaced;
  return exceeds;
}

void WorkerPool::RecycleIfOld(Slot& slot, const WorkerUsage& usage) {
  const bool is_old = slot.worker->compiles() >= options_.compiles_per_worker;
  if (!is_old && usage.rss_bytes <= options_.worker_rss_bytes_max) return;
  ReplaceWorker(slot);
  std::lock_guard lock(mutex_);
  ++stats_.recycled;
}

void WorkerPool::Shutdown(SteadyTime deadline) {
  {
    std::lock_guard lock(mutex_);
    refusing_ = true;
  }
  FailQueued(Unavailable("the worker pool is shutting down"));
  {
    std::unique_lock lock(mutex_);
    idle_.wait_until(lock, deadline, [this] { return stats_.running == 0; });
    stopping_ = true;
  }
  for (const auto& slot : slots_) slot->wake.Set();
  work_.notify_all();
  clock_changed_.notify_all();
  keeper_->Refuse();
  for (const auto& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
  keeper_->Stop();
  if (clock_watch_.joinable()) clock_watch_.join();
}

PoolStats WorkerPool::Stats() const {
  PoolStats stats;
  {
    std::lock_guard lock(mutex_);
    stats = stats_;
    stats.queued = queue_.size();
  }
  stats.zygote = keeper_->State();
  return stats;
}

}  // namespace kiln
