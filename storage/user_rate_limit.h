// How fast each user may put entries into the own namespace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <unordered_map>

#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

struct UserRateLimits {
  // May be put without a pause.
  uint64_t bytes_at_once = limits::kUserCachePutBytesAtOnce;
  // In the long run.
  uint64_t bytes_per_second = limits::kUserCachePutBytesPerSecond;
  // Those of whom it is known how much they have put of late.
  size_t users_max = limits::kPrincipalsMax;
};

// What a user may hold is bounded, and what is over the bound goes: who puts without end would keep
// the disk busy for all. So a user who has put much lately is told to wait.
//
// Thread-safe; blocks on a short mutex.
class UserRateLimit {
 public:
  // The clock outlives it.
  UserRateLimit(const UserRateLimits& limits, const Clock& clock)
      : limits_(limits), clock_(clock) {}

  // RESOURCE_EXHAUSTED, with a hint when there is room for it, where `uid` has to wait: then
  // nothing counts. What exceeds bytes_at_once by itself counts as that.
  absl::Status Spend(uid_t uid, uint64_t bytes);

 private:
  // What was put, less what the time since then has made up for.
  struct Account {
    double bytes = 0;
    SteadyTime at;
  };

  double BytesNow(const Account& account, SteadyTime now) const;
  void MakeRoom(SteadyTime now) KILN_REQUIRES(mutex_);

  const UserRateLimits limits_;
  const Clock& clock_;
  Mutex mutex_;
  std::unordered_map<uid_t, Account> accounts_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
