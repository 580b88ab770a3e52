// Keeps one zygote alive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "daemon/pool/zygote.h"
#include "daemon/process/wake_event.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// Starts a zygote when the first one asks, notices its death, and starts another when one is needed
// again: at once when it had worked, ever later when it keeps failing. Its thread is the zygote's
// parent in the kernel's eyes, so it lives as long (spawn.h).
//
// Thread-safe.
class ZygoteKeeper {
 public:
  // Calls `on_change` on the keeper's thread when a zygote has started, failed to start, or died.
  // `on_change` must not call back into the keeper.
  ZygoteKeeper(ZygoteCommand command, std::function<void()> on_change);
  ~ZygoteKeeper() { Stop(); }

  // The living zygote. Blocks while one starts. UNAVAILABLE with the reason where it does not come
  // up, and from then on without waiting until it is tried again; CANCELLED after Stop.
  absl::StatusOr<std::shared_ptr<Zygote>> Get();

  // Forgets the present zygote, if any: the next Get starts another one. The old one ends with its
  // last worker.
  void LetGo();
  // From now on Get says CANCELLED, also to callers that wait in it. A running zygote stays.
  void Refuse();
  // Ends the zygote and the thread. Idempotent. Blocks for at most about a second. REQUIRES: no
  // worker is left.
  void Stop();

  // "not started", "starting", "ready" or "failed: " and why.
  std::string State() const;

 private:
  void Loop();
  // False when the keeper stops.
  bool AwaitWanted();
  // Without the command's preferences where that helps, now and from then on.
  absl::StatusOr<std::shared_ptr<Zygote>> Start();
  // Shows what Start gave. Null where that is an error.
  std::shared_ptr<Zygote> TakeUp(const absl::StatusOr<std::shared_ptr<Zygote>>& started);
  void NoteDeath(const Zygote& zygote, SteadyTime ready_at);
  // Another zygote is tried in a while.
  void RecordFailure(const absl::Status& failure) KILN_REQUIRES(mutex_);

  ZygoteCommand command_;  // its preferences: the keeper's thread alone
  const std::function<void()> on_change_;
  WakeEvent abort_start_;
  WakeEvent stop_;  // of waiting for the zygote's death
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  bool wanted_ KILN_GUARDED_BY(mutex_) = false;
  bool starting_ KILN_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Zygote> zygote_ KILN_GUARDED_BY(mutex_);  // null also where it was let go
  absl::Status last_failure_ KILN_GUARDED_BY(mutex_);
  int failures_in_a_row_ KILN_GUARDED_BY(mutex_) = 0;
  int early_deaths_ KILN_GUARDED_BY(mutex_) = 0;
  SteadyTime retry_at_ KILN_GUARDED_BY(mutex_){};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace kiln
