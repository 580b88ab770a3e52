// The process of a toolchain that workers are forked from.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "daemon/kernel/toolchain.h"
#include "daemon/process/output_capture.h"
#include "daemon/process/spawn.h"
#include "daemon/process/wake_event.h"
#include "daemon/process/worker_groups.h"
#include "daemon/process/yielding.h"
#include "daemon/sandbox/jail.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

struct ZygoteCommand {
  // Start appends "--parent" and this process's pid to the arguments. The control socket is
  // descriptor 3.
  SpawnCommand spawn;
  // More environment variables. A zygote that does not start with them starts without them.
  std::vector<std::string> preferences = {};
  std::string name;     // of the toolchain, for the log
  std::string version;  // that the toolchain must report; "": any
  std::chrono::milliseconds start_time = limits::kZygoteStartTime;
  // The wait after a failed start; doubled each time.
  std::chrono::milliseconds retry_first{200};
  // The workers' jail; null: none.
  std::shared_ptr<Jail> jail;
  // The workers' control groups; null: none.
  std::shared_ptr<WorkerGroups> groups = nullptr;
  // The zygote does not start where this seal is broken. Null: no seal.
  std::shared_ptr<const ToolchainSeal> seal;
};

// One living zygote. A worker is a child of the zygote and not of the daemon, and is reaped only
// after the daemon has killed its group, so that a process group that the daemon kills is always
// the one that it means. When the zygote dies before its workers, they become children of the
// daemon (PR_SET_CHILD_SUBREAPER, which Start sets for the whole process), and the same holds.
//
// Thread-safe; each call waits for the zygote's answer, at most limits::kForkTime, and ends a
// zygote that gives none.
class Zygote {
 public:
  // Starts a zygote and waits until it is warm. UNAVAILABLE with its last words where it does not
  // start; CANCELLED when `stop` is set. Call on a thread that lives as long as the zygote (spawn.h
  // says why).
  static absl::StatusOr<std::shared_ptr<Zygote>> Start(const ZygoteCommand& command,
                                                       const WakeEvent& stop);
  // Ends the zygote and all its workers.
  ~Zygote();

  // The pid of a new worker that serves `job_socket`, writes to `output`, lives in `directory` and
  // is on its way into its jail. UNAVAILABLE when the zygote is dead or cannot fork;
  // FAILED_PRECONDITION where the jail's description exceeds a message.
  absl::StatusOr<pid_t> Fork(int job_socket, int output, const std::string& directory,
                             const WorkerLimits& limits);

  // FAILED_PRECONDITION where a worker that could not take these steps into its jail must not be
  // used.
  absl::Status Admit(std::vector<std::string> jail_problems) const;

  // Kills everything in the group of `worker`, and returns the wait status where it is known.
  // REQUIRES: Fork returned `worker`, and it has not been ended yet.
  std::optional<int> EndWorker(pid_t worker);

  // Never waits for another call.
  bool IsAlive() const;
  // Blocks until the zygote has died or `stop` is set.
  void WaitForDeath(const WakeEvent& stop);
  pid_t pid() const { return pid_; }
  // The weight of the session that the zygote and all its workers are in.
  SessionWeight& weight() { return weight_; }
  // The end of what it wrote.
  std::string LastWords() const;

 private:
  Zygote(pid_t pid, UniqueFd control, OutputCapture output, const ZygoteCommand& command);

  absl::Status AwaitHello(const ZygoteCommand& command, const WakeEvent& stop);
  // Sends and waits for the answer. Any error ends the zygote.
  absl::StatusOr<nlohmann::json> Ask(const std::string& request, const int* descriptors,
                                     size_t count) KILN_REQUIRES(mutex_);
  absl::Status SendMessage(const std::string& text, const int* descriptors, size_t count);
  absl::StatusOr<nlohmann::json> ReceiveMessage(std::chrono::steady_clock::time_point deadline,
                                                int wake_fd);
  absl::StatusOr<std::string> ForkRequest(const std::string& directory, WorkerLimits limits) const;
  // Kills and reaps a worker.
  std::optional<int> EndWorkerLocked(pid_t worker) KILN_REQUIRES(mutex_);
  // Whether `worker` leads a group of the zygote's session, into which nobody comes from elsewhere.
  // Needs no descriptor: there may be none just now.
  bool IsOurs(pid_t worker) const;
  // Kills and reaps the zygote and its orphans.
  void End() KILN_REQUIRES(mutex_);
  // Ends those children of this process that come from the dead zygote and that Fork did not give
  // to anyone: forked just before its death, or left behind by a worker. Does nothing where
  // descriptors are lacking. REQUIRES: the zygote is reaped.
  void EndOrphans() KILN_REQUIRES(mutex_);

  const pid_t pid_;
  SessionWeight weight_{pid_};
  UniqueFd control_;
  UniqueFd process_;  // a pidfd: readable once it is dead
  OutputCapture output_;
  const std::shared_ptr<Jail> jail_;
  const std::shared_ptr<WorkerGroups> groups_;
  JailNeeds needs_;
  Mutex mutex_;  // held for a question and its answer, seconds at worst
  std::atomic<bool> alive_ = true;
  // Given out by Fork and not ended yet.
  std::set<pid_t> workers_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
