// Runs the compiles of one toolchain, each in a worker process of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/pool/pool_stats.h"
#include "daemon/pool/worker_process.h"
#include "daemon/pool/zygote_keeper.h"
#include "storage/base/call_context.h"
#include "storage/base/limits.h"

namespace kiln {

struct WorkerPoolOptions {
  ZygoteCommand zygote;
  // The pool makes one private directory per slot in it. On tmpfs: nothing in it outlives a
  // compile.
  std::string work_directory;
  // How many compiles run at the same time.
  int slots = 1;
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
// started. A compiler that gave up on the source in words (abort_diagnosis.h) has answered, and is
// not asked twice.
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

  // Requests from now on run in a new zygote's workers. Running compiles finish.
  void Renew() { LetZygoteGo(); }

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

  // These three REQUIRE mutex_.
  int CountReady(bool starting_too) const;
  int ReadyWanted() const;  // how many workers are to wait for a task
  bool IsOfUse(const Slot& slot) const;

  absl::StatusOr<std::unique_ptr<WorkerProcess>> StartIn(Slot& slot,
                                                         const std::shared_ptr<Zygote>& zygote);
  // Fails the queue when no slot has a worker or may get one.
  void LetRest(Slot& slot, const absl::Status& why, bool others_may_do_better);

  void FinishAnswered(const TaskPtr& task, WorkerReply reply);
  void FinishKilled(Slot& slot, const TaskPtr& task, absl::StatusOr<WorkerReply> result);
  // `said`: by a compiler that lived to tell. Tries the task again, once.
  void FinishCrashed(Slot& slot, const TaskPtr& task, const std::string& what,
                     const CompileFailure& said);
  bool TryAgain(const TaskPtr& task);  // REQUIRES mutex_; false when nobody waits for it
  bool ExceedsCrashBudget();           // REQUIRES mutex_

  void Cancel(const TaskPtr& task);
  void Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result);

  // The life of clock_watch_.
  void WatchClock();
  std::vector<TaskPtr> TakeLate(SteadyTime now);  // REQUIRES mutex_
  bool LookForIdleness(SteadyTime now);           // REQUIRES mutex_; whether the zygote is to go
  bool ZygoteMayIdle() const;                     // REQUIRES mutex_
  SteadyTime NextLook() const;                    // REQUIRES mutex_
  void LetZygoteGo();

  const WorkerPoolOptions options_;
  const int running_max_;  // compiles at the same time
  PoolCounters counters_{options_.labels};
  mutable std::mutex mutex_;
  std::condition_variable work_;           // the slots have something to do
  std::condition_variable idle_;           // a compile ended
  std::condition_variable clock_changed_;  // clock_watch_ has to look earlier
  Queue queue_;
  bool refusing_ = false;                         // Shutdown has begun
  bool stopping_ = false;                         // slots end
  SteadyTime next_deadline_ = SteadyTime::max();  // of queue_
  SteadyTime next_look_ = SteadyTime::max();      // of clock_watch_
  uint64_t generation_ = 0;                       // of the zygote
  bool in_use_ = false;                           // since the zygote was let go
  SteadyTime used_at_{};
  int spares_ = 0;     // workers that are to wait for tasks yet to come
  int busy_peak_ = 0;  // compiles at the same time since idle_look_at_ was set
  SteadyTime idle_look_at_{};
  SteadyTime crashes_since_{};  // the hour in which crashes are counted
  int crashes_ = 0;
  PoolStats stats_;  // workers and running
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<ZygoteKeeper> keeper_;
  std::thread clock_watch_;

  Gauge workers_gauge_{"workers", "Worker processes alive.", [this] { return Stats().workers; },
                       options_.labels};
  Gauge queued_gauge_{"toolchain_queued", "Started compiles that wait for a worker.",
                      [this] { return Stats().queued; }, options_.labels};
};

}  // namespace kiln
