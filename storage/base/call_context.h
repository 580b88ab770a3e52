// The caller, its deadline, its priority and its cancellation. Every operation takes one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln {

// The caller as the kernel reports it (SO_PEERCRED), never as the client says.
struct Principal {
  uid_t uid = 0;
  // True on the administration socket.
  bool is_admin = false;

  friend auto operator<=>(const Principal&, const Principal&) = default;
};

// Declared from most to least urgent.
enum class Priority { kWaitingRank = 0, kAutotune = 1, kWarm = 2, kBackground = 3 };
// A compile ahead: nobody waits for it yet.
constexpr bool IsAhead(Priority priority) { return priority >= Priority::kWarm; }

// Tells callbacks when somebody cancels: each at most once, and at once where the callback is
// registered after the cancellation. A cheap handle; copies share one state. Thread-safe.
class Cancellation {
 public:
  void Cancel() { source_.request_stop(); }
  bool IsCancelled() const { return source_.stop_requested(); }

  // Keeps a callback registered while it lives. When its destructor returns, the callback is not
  // running and never will be, except where the callback itself destroys the registration.
  using Registration = std::unique_ptr<std::stop_callback<std::function<void()>>>;

  // Runs `callback` on the thread that calls Cancel(), or here where Cancel() was called before.
  [[nodiscard]] Registration OnCancel(std::function<void()> callback) const;

 private:
  std::stop_source source_;
};

struct CallContext {
  Principal principal;
  Priority priority = Priority::kWaitingRank;
  // The name of the job, for fairness and logs only: the client chooses it.
  std::string job;
  // None: the caller waits up to the daemon's own limit on a compile.
  std::optional<SteadyTime> deadline;
  Cancellation cancellation;
};

// How many uses a hit is. What a warm finds saves nobody a compile.
inline uint64_t UsesOfHit(const CallContext& context) { return IsAhead(context.priority) ? 0 : 1; }

// CANCELLED or DEADLINE_EXCEEDED where the caller no longer waits. OK otherwise.
[[nodiscard]] absl::Status StillWanted(const CallContext& context, const Clock& clock);

}  // namespace kiln
