// How compilers share the cores with jobs: docs/adr/0092-what-nobody-waits-for-yields.md.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "storage/base/mutex.h"

namespace kiln {

// `process`, which has one thread, and what it starts from now on give up their core as soon as a
// thread of an ordinary slice wakes up there: their own slice is the longest that there is. What
// they get of the cores stays the same. Takes no privilege, but a system call that kilnd.service
// filters out: it is logged once. Does nothing before Linux 6.12.
void MakePreemptible(pid_t process);

// Whether this process may undo Yield. The kernel lets root leave SCHED_IDLE, and who has an
// RLIMIT_NICE of 20 (systemd: LimitNICE=+0).
bool MayStopYielding();

// `process` and what it starts from now on get a core only where no other thread of their session,
// or control group, wants it (SCHED_IDLE).
void Yield(pid_t process);
// The threads of `process` and of its descendants yield no longer.
void StopYielding(pid_t process);

// `process`, which has one thread, and what it starts from now on keep off every fourth of this
// process's cores, or the last one where there are fewer. Does nothing on one core. Takes no
// privilege, but a system call that kilnd.service filters out.
void LeaveCores(pid_t process);

// What a session gets beside other sessions, where the kernel shares out cores by sessions
// (sched_autogroup_enabled). Does nothing elsewhere. Thread-safe.
class SessionWeight {
 public:
  explicit SessionWeight(pid_t leader);

  // The lowest weight, or an ordinary one. Gets low at most once a second: the kernel takes ten
  // changes a second of all who are not root, and is not to refuse the way back.
  void SetLow(bool low);

 private:
  const std::string path_;
  Mutex mutex_;
  bool is_low_ KILN_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point changed_at_ KILN_GUARDED_BY(mutex_){};
};

}  // namespace kiln
