// Keeps one zygote alive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/pool/zygote.h"
#include "daemon/process/wake_event.h"
#include "storage/base/status.h"

namespace kiln {

// Starts a zygote when the first one asks, notices its death, and starts another when one is needed
// again: at once when it had worked, ever later when it keeps failing. One that refuses to fork,
// time and again, is replaced too. Its thread is the zygote's parent in the kernel's eyes, so it
// lives as long (spawn.h).
//
// Thread-safe.
class ZygoteKeeper {
 public:
  // `on_change` is told, on the keeper's thread, that a zygote came up, failed to, or died; it must
  // not call back into the keeper.
  ZygoteKeeper(ZygoteCommand command, std::function<void()> on_change);
  ~ZygoteKeeper() { Stop(); }

  // The living zygote. Blocks while one starts. UNAVAILABLE with the reason where it does not come
  // up, and from then on without waiting until it is tried again; CANCELLED after Stop.
  absl::StatusOr<std::shared_ptr<Zygote>> Get();

  // Forgets the zygote that is up, if any: whoever asks next gets another one. The old one ends
  // once none of its workers is left.
  void LetGo();
  // From now on Get says CANCELLED, at once also to those that wait in it. A zygote that is up
  // stays.
  void Refuse();
  // Ends the zygote and the thread. Idempotent. Blocks for at most about a second. REQUIRES: no
  // worker is left.
  void Stop();

  // "not started", "starting", "ready" or "failed: " and why.
  std::string State() const;

 private:
  void Loop();
  // Without the command's preferences where that helps, now and from then on.
  absl::StatusOr<std::shared_ptr<Zygote>> Start();
  // One zygote from start to death. REQUIRES: `lock` is held; it is released in between.
  void KeepOne(std::unique_lock<std::mutex>& lock);
  // Ends the row of failures where it has worked. REQUIRES: mutex_ held, zygote_ is not null.
  void LetGoLocked();
  // Another one is tried in a while. REQUIRES: the same.
  void LetGoOfRefusing();
  void RecordFailure(const absl::Status& failure);

  ZygoteCommand command_;  // its preferences: the keeper's thread alone
  const std::function<void()> on_change_;
  WakeEvent abort_start_;
  WakeEvent stop_;  // of waiting for the zygote's death
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool wanted_ = false;
  bool starting_ = false;
  std::shared_ptr<Zygote> zygote_;  // null also where it was let go
  absl::Status last_failure_;
  int failures_in_a_row_ = 0;
  int early_deaths_ = 0;
  std::chrono::steady_clock::time_point retry_at_{};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace kiln
