// What systemd is told of the daemon's life (sd_notify). Does nothing where nobody listens.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace kiln {

// Speaks to $NOTIFY_SOCKET. Thread-safe. Does not block.
class ServiceNotifier {
 public:
  void Ready(const std::string& status);
  void Status(const std::string& status);
  // Also says how long the stop may take.
  void Stopping(std::chrono::milliseconds at_most);
  void KeepAlive();
};

// How often KeepAlive is expected: half of the unit's WatchdogSec. None where the unit sets none.
std::optional<std::chrono::microseconds> WatchdogInterval();

}  // namespace kiln
