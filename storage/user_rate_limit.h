// Limits how fast each user may put entries into the user cache.
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
  // A user may put this much without a pause.
  uint64_t bytes_at_once = limits::kUserCachePutBytesAtOnce;
  // The rate in the long run.
  uint64_t bytes_per_second = limits::kUserCachePutBytesPerSecond;
  // Users whose recent puts are remembered.
  size_t users_max = limits::kPrincipalsMax;
};

// UserQuota bounds what a user holds, and evicts the rest: a user who puts without end would keep
// the disk busy for all. So this tells a user who has put much recently to wait.
//
// Thread-safe; blocks on a short mutex.
class UserRateLimit {
 public:
  // `clock` must outlive the rate limit.
  UserRateLimit(const UserRateLimits& limits, const Clock& clock)
      : limits_(limits), clock_(clock) {}

  // RESOURCE_EXHAUSTED with a hint when to try again where `uid` has to wait; nothing is counted
  // then. More than bytes_at_once counts as bytes_at_once.
  absl::Status Spend(uid_t uid, uint64_t bytes);

 private:
  // The bytes put, less the bytes that passing time has given back.
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
