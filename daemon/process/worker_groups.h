// A control group for each worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/process/control_groups.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// What all processes of one worker may take together.
struct WorkerGroupBounds {
  uint64_t threads = limits::kWorkerThreadsMax;  // a process counts as its threads
  uint64_t memory_bytes = 0;                     // 0: unlimited
};

// Makes control groups for workers below this process's own group, and reuses them. The kernel
// refuses a worker the thread above its bound, and kills a worker that exceeds its memory.
// Thread-safe; each call blocks for a few small writes.
class WorkerGroups {
 public:
  // Version 2 needs a group that holds this process alone, as systemd's Delegate= gives one: this
  // process then moves into a child of that group, named "daemon". Version 1 bounds threads only.
  // FAILED_PRECONDITION, with the reason, where this process may not make groups.
  // REQUIRES: this process has no children yet.
  static absl::StatusOr<std::unique_ptr<WorkerGroups>> Open(const ControlGroups& own,
                                                            const WorkerGroupBounds& bounds);
  // Removes the groups that are empty.
  ~WorkerGroups();

  // Moves `worker` into an empty group.
  absl::Status Add(pid_t worker);
  // Kills everything in the group of `worker`. Does nothing where Add did not succeed.
  void Kill(pid_t worker);

  bool bounds_memory() const { return bounds_.memory_bytes != 0; }

 private:
  WorkerGroups(std::string parent, const WorkerGroupBounds& bounds)
      : parent_(std::move(parent)), bounds_(bounds) {}
  static absl::StatusOr<std::unique_ptr<WorkerGroups>> OpenVersion2(const std::string& own,
                                                                    WorkerGroupBounds bounds);
  static absl::StatusOr<std::unique_ptr<WorkerGroups>> OpenVersion1(const std::string& own,
                                                                    WorkerGroupBounds bounds);
  // An empty group, with its bounds set.
  absl::StatusOr<std::string> Take();

  const std::string parent_;
  const WorkerGroupBounds bounds_;
  Mutex mutex_;
  std::map<pid_t, std::string> used_ KILN_GUARDED_BY(mutex_);
  std::vector<std::string> free_ KILN_GUARDED_BY(mutex_);
  int made_ KILN_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln
