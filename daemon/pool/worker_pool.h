// N worker processes of one toolchain behind a queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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
  // Beneath it the pool makes one private directory per slot. On tmpfs: nothing in it outlives a
  // compile.
  std::string work_directory;
  int slots = 1;
  // Start the zygote and fork all workers now, rather than when there is work, and keep the zygote
  // whether there is work or not.
  bool eager = false;
  // Workers that were not needed at any moment of such a time end, down to so many. 0: they stay.
  std::chrono::milliseconds idle_time = limits::kWorkerIdleTimeDefault;
  int idle_workers_min = limits::kIdleWorkersDefault;
  // A zygote that nobody asked anything of for so long ends, with all its workers. 0: it stays.
  std::chrono::milliseconds zygote_idle_time = limits::kZygoteIdleTimeDefault;
  // After so many crashes within an hour the zygote is replaced, at most once in that hour. 0: it
  // is not.
  int crashes_per_hour = limits::kCrashesPerHourDefault;
  // No compile takes longer, whatever its caller says.
  std::chrono::milliseconds compile_time_max = limits::kCompileTimeDefault;
  // A worker is replaced after so many compiles, or when it has become this large.
  int compiles_per_worker = limits::kCompilesPerWorkerDefault;
  uint64_t worker_rss_bytes_max = limits::kWorkerRssBytesDefault;
  WorkerLimits worker_limits;
  // Nobody who has it is trusted, be it this process's own (shared_uid.h).
  std::optional<uid_t> shared_uid = {};
};

// Runs requests in worker processes, first come first served. A worker compiles once and is then
// replaced, unless whoever asks is trusted: root and this process's own user, unless others have
// its uid too, for sources that are theirs (CallContext). For those it goes on, and serves no
// second principal: one that has served another is replaced first. A worker that dies or answers
// nonsense is replaced and the request tried once more on a fresh one; one whose caller's time is
// over, or whose caller went away, is killed with all that it started. A compiler that gave up on
// the source in words (abort_diagnosis.h) has answered, and is not asked twice.
//
// Processes are there while they are needed: the zygote comes with the first request, workers as
// requests run side by side, and both go again when they have been idle.
//
// Thread-safe. Nothing blocks but Shutdown and the destructor.
class WorkerPool {
 public:
  // The reply, or: DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE when the toolchain's zygote does not
  // start or the pool shuts down; INTERNAL, marked as a compiler's crash (compiler_crash.h), when
  // the compiler crashed twice, with signal and last words. Called exactly once, on a thread of the
  // pool or of whoever cancels or submits; must not block for long.
  using Done = std::function<void(absl::StatusOr<WorkerReply>)>;

  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool();

  void Submit(CallContext context, WorkerRequest request, Done done);

  // Whatever is submitted from now on runs in processes that are started from now on: those there
  // are finish what they run, and end.
  void Renew() { LetZygoteGo(); }

  // Refuses new and queued requests, waits for running ones until `deadline`, kills what is left.
  // Afterwards no process of the pool lives. Idempotent, but not to be called on two threads at
  // once.
  void Shutdown(SteadyTime deadline);

  PoolStats Stats() const;

 private:
  struct Task;
  struct Slot;
  using TaskPtr = std::shared_ptr<Task>;
  using Queue = std::deque<TaskPtr>;

  void SlotLoop(Slot& slot);
  // Blocks until there is work for the slot, and gives it; null when the slot must see to its
  // worker first, or when all is over.
  TaskPtr NextTask(Slot& slot);
  // The same, of a slot that has a worker, without waiting.
  TaskPtr TakeTask(Slot& slot);
  // What the slot's worker may run, of what is queued; queue_.end() where there is nothing.
  Queue::const_iterator FirstTaskFor(const Slot& slot) const;
  int CountSlots(const std::function<bool(const Slot&)>& is_meant) const;
  // Whether no worker that waits may run it.
  bool IsStuck(const Task& task) const;
  // Whether more is stuck, of what is queued before `end`, than fresh workers are on their way.
  bool FreshWorkerIsMissing(Queue::const_iterator end) const;
  // Whether something is compiled that costs its worker, and no fresh one is there or on its way.
  bool SpareIsMissing() const;
  // Whether the slot's worker has to make room for a fresh one, having served others.
  bool MustGiveWay(const Slot& slot) const;
  // The slot's worker, if it has one, is of no more use: whether it gets another.
  void Vacate(Slot& slot);
  bool SlotIsNeeded(const Slot& slot) const;
  // Whether the slot's worker has work, is of no use, or is one too many.
  bool WorkerIsNeeded(const Slot& slot) const;
  // Whether the slot's worker comes from a zygote that was let go since.
  bool IsOutdated(const Slot& slot) const;
  void StartWorker(Slot& slot);
  // It could not have a worker; a slot that has not tried may, unless there is no zygote.
  void LetRest(Slot& slot, const absl::Status& why, bool others_may_do_better);
  absl::StatusOr<std::unique_ptr<WorkerProcess>> StartIn(Slot& slot,
                                                         const std::shared_ptr<Zygote>& zygote);
  void EndWorker(Slot& slot);
  // Ends it, and has the slot start another, so that the next task finds it warm.
  void ReplaceWorker(Slot& slot);
  void RunTask(Slot& slot, const TaskPtr& task);
  // The worker was not asked: replaces it, and puts the task back into the queue, once.
  void FinishUnready(Slot& slot, const TaskPtr& task, const absl::Status& why);
  // Puts a running task back into the queue, in front, unless nobody waits for it any more.
  // REQUIRES: mutex_ held.
  bool TryAgain(const TaskPtr& task);
  // The task's time is over, or nobody wants it any more: kills the worker.
  void KillTask(Slot& slot, const TaskPtr& task, const absl::Status& why);
  // The worker is of no use: replaces it, and puts the task back into the queue, or ends it where
  // it had its chances. `said`: by a worker that lived to tell.
  void CrashTask(Slot& slot, const TaskPtr& task, const std::string& what,
                 const CompileFailure* said = nullptr);
  // The compiler gave up on the source, and took its worker along.
  void FinishAborted(const TaskPtr& task, CompileFailure failure);
  // The compiler filled the disk, as it would again.
  void FinishOverfull(Slot& slot, const TaskPtr& task, const absl::Status& why);
  // Something is wrong here, and neither with the source nor with the worker.
  void FinishUnable(const TaskPtr& task, const CompileFailure& failure);
  void RecycleIfOld(Slot& slot, const WorkerUsage& usage);

  void Cancel(const TaskPtr& task);
  void Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result);
  void FailQueued(const absl::Status& failure);
  void WatchClock();
  // Of what is queued, those whose deadline has passed; they are out of the queue.
  std::vector<TaskPtr> TakeLate(SteadyTime now);
  // Whether the zygote has been idle for too long. Once in a while, counts the workers that are too
  // many.
  bool LookForIdleness(SteadyTime now);
  // When WatchClock has to look again, if nothing happens.
  SteadyTime NextLook() const;
  // Whether this crash was one too many for the zygote.
  bool ExceedsCrashBudget(SteadyTime now);
  void LetZygoteGo();

  const WorkerPoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;           // something for the slots
  std::condition_variable idle_;           // something stopped running
  std::condition_variable clock_changed_;  // something for clock_watch_
  Queue queue_;
  bool refusing_ = false;                         // Shutdown has begun
  bool stopping_ = false;                         // slots end
  SteadyTime next_deadline_ = SteadyTime::max();  // of what is queued
  SteadyTime next_look_ = SteadyTime::max();      // that clock_watch_ waits for
  uint64_t generation_ = 0;                       // of the zygote
  bool in_use_ = false;                           // something was asked since the zygote was let go
  SteadyTime used_at_{};                          // something was asked, or answered
  SteadyTime idle_look_at_{};                     // at surplus workers
  int busy_peak_ = 0;                             // at the same time, since the last such look
  int surplus_ = 0;                               // idle workers that shall end
  SteadyTime crashes_since_{};                    // the hour in which crashes are counted
  int crashes_ = 0;
  PoolStats stats_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<ZygoteKeeper> keeper_;
  std::thread clock_watch_;
};

}  // namespace kiln
