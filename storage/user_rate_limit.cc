#include "storage/user_rate_limit.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "storage/base/mutex.h"

namespace kiln {

absl::Status UserRateLimit::Spend(uid_t uid, uint64_t bytes) {
  const auto room = static_cast<double>(limits_.bytes_at_once);
  const double more = std::min(static_cast<double>(bytes), room);
  const SteadyTime now = clock_.Now();
  const MutexLock lock(mutex_);
  if (!accounts_.contains(uid)) MakeRoom(now);
  Account& account = accounts_.try_emplace(uid, Account{0, now}).first->second;
  account = {BytesNow(account, now), now};
  const double over = account.bytes + more - room;
  if (over <= 0) {
    account.bytes += more;
    return absl::OkStatus();
  }
  const double seconds = over / static_cast<double>(limits_.bytes_per_second);
  return WithRetryAfter(
      ResourceExhausted("uid {} has put {} bytes into its own namespace without a pause, or more "
                        "than {} a second for long",
                        uid, limits_.bytes_at_once, limits_.bytes_per_second),
      std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000))));
}

double UserRateLimit::BytesNow(const Account& account, SteadyTime now) const {
  const std::chrono::duration<double> since = now - account.at;
  return std::max(0.0,
                  account.bytes - since.count() * static_cast<double>(limits_.bytes_per_second));
}

// Forgets the user who has put least.
void UserRateLimit::MakeRoom(SteadyTime now) {
  if (accounts_.size() < limits_.users_max) return;
  accounts_.erase(
      std::min_element(accounts_.begin(), accounts_.end(), [&](const auto& one, const auto& other) {
        return BytesNow(one.second, now) < BytesNow(other.second, now);
      }));
}

}  // namespace kiln
