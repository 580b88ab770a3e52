// N worker processes of one toolchain behind a queue.
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

#include "daemon/worker/worker_process.h"
#include "daemon/worker/zygote_keeper.h"
#include "storage/base/call_context.h"
#include "storage/base/limits.h"

namespace kiln {

struct WorkerPoolOptions {
  ZygoteCommand zygote;
  // Beneath it the pool makes one private directory per slot. On tmpfs: nothing in it outlives a
  // compile.
  std::string work_directory;
  int slots = 1;
  // Start the zygote and fork all workers now, rather than when there is work.
  bool eager = false;
  // No compile takes longer, whatever its caller says.
  std::chrono::milliseconds compile_time_max = limits::kCompileTimeDefault;
  // A worker is replaced after so many compiles, or when it has become this large.
  int compiles_per_worker = limits::kCompilesPerWorkerDefault;
  uint64_t worker_rss_bytes_max = limits::kWorkerRssBytesDefault;
  WorkerLimits worker_limits;
};

struct PoolStats {
  int slots = 0;
  int workers = 0;  // alive
  int running = 0;  // compiling
  size_t queued = 0;
  uint64_t started = 0;
  uint64_t killed = 0;    // by a deadline or because nobody waited any more
  uint64_t crashed = 0;   // died, or said something that no worker says
  uint64_t recycled = 0;  // replaced because of age or size
  uint64_t compiles = 0;  // that came to an answer
  uint64_t compile_cpu_micros = 0;
  std::string zygote;  // "ready", "starting", or what is wrong with it
};

// Runs requests in worker processes, first come first served. A worker that dies or answers
// nonsense is replaced and the request tried once more on a fresh one; one whose caller's time is
// over, or whose caller went away, is killed with all that it started.
//
// Thread-safe. Nothing blocks but Shutdown and the destructor.
class WorkerPool {
 public:
  // The reply, or: DEADLINE_EXCEEDED, CANCELLED; UNAVAILABLE when the toolchain's zygote does not
  // start or the pool shuts down; INTERNAL when the compiler crashed twice, with signal and last
  // words. Called exactly once, on a thread of the pool or of whoever cancels or submits; must not
  // block for long.
  using Done = std::function<void(absl::StatusOr<WorkerReply>)>;

  explicit WorkerPool(WorkerPoolOptions options);
  ~WorkerPool();

  void Submit(CallContext context, WorkerRequest request, Done done);

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
  // What the slot's worker may run, of what is queued; queue_.end() where there is nothing.
  Queue::const_iterator FirstTaskFor(const Slot& slot) const;
  // Whether something is queued that only a fresh worker may run; if so, it is at the front.
  bool RetryWaits() const;
  bool SlotIsNeeded(const Slot& slot) const;
  void StartWorker(Slot& slot);
  void EndWorker(Slot& slot);
  void RunTask(Slot& slot, const TaskPtr& task);
  // The task's time is over, or nobody wants it any more: kills the worker.
  void KillTask(Slot& slot, const TaskPtr& task, const absl::Status& why);
  // The worker is of no use: replaces it, and puts the task back into the queue, or ends it where
  // it had its chances.
  void CrashTask(Slot& slot, const TaskPtr& task, const std::string& what);
  void RecycleIfOld(Slot& slot, const WorkerUsage& usage);

  void Cancel(const TaskPtr& task);
  void Finish(const TaskPtr& task, absl::StatusOr<WorkerReply> result);
  void FailQueued(const absl::Status& failure);
  void WatchDeadlines();

  const WorkerPoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;       // something for the slots
  std::condition_variable idle_;       // something stopped running
  std::condition_variable deadlines_;  // something for deadline_watch_
  Queue queue_;
  bool refusing_ = false;                         // Shutdown has begun
  bool stopping_ = false;                         // slots end
  bool prefork_;                                  // slots fork without waiting for work
  int ready_slots_ = 0;                           // waiting with a worker at hand
  SteadyTime next_deadline_ = SteadyTime::max();  // that deadline_watch_ waits for
  PoolStats stats_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<ZygoteKeeper> keeper_;
  std::thread deadline_watch_;
};

}  // namespace kiln
