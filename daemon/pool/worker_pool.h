// Runs the compiles of one toolchain, each in a worker process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/pool/pool_stats.h"
#include "daemon/pool/worker_process.h"
#include "daemon/pool/zygote_keeper.h"
#include "storage/base/call_context.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

struct WorkerPoolOptions {
  ZygoteCommand zygote;
  // The pool makes one private directory per slot in it. On tmpfs: nothing in it outlives a
  // compile.
  std::string work_directory;
  // How many compiles run at the same time.
  int slots = 1;
  // Whether jobs ask for kernels just now. Must not block.
  std::function<bool()> jobs_ask = [] { return false; };
  // Start the zygote and the spare workers now, and keep the zygote while it is idle.
  bool eager = false;
  // Spare workers that were not needed for this long end, down to so many. 0: they stay.
  std::chrono::milliseconds idle_time = limits::kWorkerIdleTimeDefault;
  int idle_workers_min = limits::kIdleWorkersDefault;
  // A zygote without a compile for this long ends, with its workers. 0: it stays.
  std::chrono::milliseconds zygote_idle_time = limits::kZygoteIdleTimeDefault;
  // This many crashes within an hour replace the zygote, once in that hour. 0: never.
  int crashes_per_hour = limits::kCrashesPerHourDefault;
  // No compile takes longer, whatever its caller's deadline.
  std::chrono::milliseconds compile_time_max = limits::kCompileTimeDefault;
  WorkerLimits worker_limits;
  // The labels of the pool's metrics.
  MetricLabels labels;
};

// A queue in front of worker processes, first come first served. A worker is forked from the
// toolchain's zygote, compiles once and ends: what a compiler keeps in its process, or a source
// does to it, decides nothing else. Spare workers wait, forked and jailed, for the next compiles.
//
// A worker that dies or answers nonsense costs its compile one more try, on another worker. A
// worker whose caller's deadline passes, or whose caller goes away, is killed with all that it
// started. A deadline counts from when a worker takes the request; who wants a queued request to
// end earlier cancels it, as CoalescingProvider does. A compiler that gave up on the source in
// words (abort_diagnosis.h) has answered, and is not asked twice.
//
// A compile that nobody waits for yet (IsAhead) leaves the cores to others, where this process may
// take that back, and some of them alone while jobs ask.
//
// The zygote starts with the first request. Spare workers, and then the zygote, end when they have
// been idle.
//
// Thread-safe. Only Shutdown and the destructor block.
class WorkerPool {
 public:
  // The reply, or: DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE when the toolchain's zygote does not
  // start or the pool shuts down; INTERNAL, marked as a compiler's crash (compiler_crash.h), when
  // the compiler crashed twice, with signal and last words. Called exactly once, on a thread of the
  // pool or of the caller that cancels or submits; must not block for long.
  using Done = std::function<void(absl::StatusOr<WorkerReply>)>;

  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool();

  void Submit(CallContext context, WorkerRequest request, Done done);

  // Somebody waits for this request, or for its place. Does nothing for unknown keys.
  void Raise(const Digest& key);

  // Requests from now on run in a new zygote's workers. Running compiles finish.
  void Renew();

  // Refuses new and queued requests, waits for running ones until `deadline`, kills what is left.
  // Afterwards no process of the pool lives. Idempotent. REQUIRES: no other thread is in it.
  void Shutdown(SteadyTime deadline);

  PoolStats Stats() const;
  const PoolCounters& counters() const { return counters_; }

 private:
  struct Task;
  struct Slot;
  using TaskPtr = std::shared_ptr<Task>;
  using Queue = std::deque<TaskPtr>;

  // The life of a slot's thread: these four, again and again.
  void SlotLoop(Slot& slot);
  bool AwaitNeed(Slot& slot);     // of one more worker; false when the pool stops
  bool StartWorker(Slot& slot);   // false: the slot rests
  TaskPtr AwaitTask(Slot& slot);  // null when the worker is of no use any more
  void RunTask(Slot& slot, const TaskPtr& task);
  void EndWorker(Slot& slot);

  // There is one more task, or one more may run.
  void WakeNext();
  void WakeAll();
  // Waits until `is_met`, which is called under the lock, and looks for idleness meanwhile.
  void Await(CondVar& woken, const std::function<bool()>& is_met) KILN_REQUIRES(mutex_);
  int CountReady(bool starting_too) const KILN_REQUIRES(mutex_);
  // How many workers are to wait for a task.
  int ReadyWanted() const KILN_REQUIRES(mutex_);
  bool IsOfUse(const Slot& slot) const KILN_REQUIRES(mutex_);

  absl::StatusOr<std::unique_ptr<WorkerProcess>> StartIn(Slot& slot,
                                                         const std::shared_ptr<Zygote>& zygote);
  // Fails the queue when no slot has a worker or may get one.
  void LetRest(Slot& slot, const absl::Status& why, bool others_may_do_better);

  void FinishAnswered(const TaskPtr& task, WorkerReply reply);
  void FinishKilled(Slot& slot, const TaskPtr& task, absl::Status why);
  // `said`: by a compiler that lived to tell. Tries the task again, once.
  void FinishCrashed(Slot& slot, const TaskPtr& task, const std::string& what,
                     const CompileFailure& said);
  // False when nobody waits for the task.
  bool TryAgain(const TaskPtr& task) KILN_REQUIRES(mutex_);
  bool ExceedsCrashBudget() KILN_REQUIRES(mutex_);

  void Cancel(const TaskPtr& task);
  // All workers together weigh little while each of them yields.
  void WeighSession(Slot& slot) KILN_REQUIRES(mutex_);
  // Takes back Yield. Returns whether the task has yielded.
  bool EndYielding(Slot& slot, const TaskPtr& task);
  // Has it run once more, without yielding. False when nobody waits for the task.
  bool TryUrgently(Slot& slot, const TaskPtr& task);
  void Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result);

  // Ends spare workers, and the zygote, that have been idle for too long.
  void LookForIdleness(SteadyTime now) KILN_REQUIRES(mutex_);
  bool ZygoteMayIdle() const KILN_REQUIRES(mutex_);
  SteadyTime NextLook() const KILN_REQUIRES(mutex_);
  void LetZygoteGo() KILN_REQUIRES(mutex_);

  const WorkerPoolOptions options_;
  const int running_max_;  // compiles at the same time
  const bool may_yield_;
  PoolCounters counters_{options_.labels};
  // Held while a method of the keeper takes the keeper's own mutex, never the other way round.
  mutable Mutex mutex_;
  CondVar task_due_;       // waits: slots with a worker
  CondVar worker_needed_;  // waits: slots without one
  CondVar changed_;        // waits: slots that rest, and Shutdown
  Queue queue_ KILN_GUARDED_BY(mutex_);
  std::set<TaskPtr> yielding_ KILN_GUARDED_BY(mutex_);  // of the running ones
  bool refusing_ KILN_GUARDED_BY(mutex_) = false;       // Shutdown has begun
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;       // slots end
  uint64_t generation_ KILN_GUARDED_BY(mutex_) = 0;     // of the zygote
  bool in_use_ KILN_GUARDED_BY(mutex_) = false;         // since the zygote was let go
  SteadyTime used_at_ KILN_GUARDED_BY(mutex_){};
  // Workers that are to wait for tasks yet to come.
  int spares_ KILN_GUARDED_BY(mutex_) = 0;
  // Compiles at the same time since idle_look_at_ was set.
  int busy_peak_ KILN_GUARDED_BY(mutex_) = 0;
  SteadyTime idle_look_at_ KILN_GUARDED_BY(mutex_){};
  SteadyTime crashes_since_ KILN_GUARDED_BY(mutex_){};  // the hour in which crashes are counted
  int crashes_ KILN_GUARDED_BY(mutex_) = 0;
  PoolStats stats_ KILN_GUARDED_BY(mutex_);  // workers and running
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<ZygoteKeeper> keeper_;

  // May be read before the constructor has made the keeper.
  Gauge workers_gauge_{"workers", "Worker processes alive.",
                       [this] {
                         const MutexLock lock(mutex_);
                         return stats_.workers;
                       },
                       options_.labels};
  Gauge queued_gauge_{"toolchain_queued", "Started compiles that wait for a worker.",
                      [this] {
                        const MutexLock lock(mutex_);
                        return queue_.size();
                      },
                      options_.labels};
};

}  // namespace kiln
