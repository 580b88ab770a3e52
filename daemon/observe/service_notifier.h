// What systemd is told of the daemon's life (sd_notify). Does nothing where nobody listens.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace kiln {

// Thread-safe. Does not block.
class ServiceNotifier {
 public:
  virtual ~ServiceNotifier() = default;
  virtual void Ready(const std::string& status) = 0;
  virtual void Status(const std::string& status) = 0;
  // Also says how long the stop may take.
  virtual void Stopping(std::chrono::milliseconds at_most) = 0;
  virtual void KeepAlive() = 0;
};

// Speaks to $NOTIFY_SOCKET.
class SystemdNotifier final : public ServiceNotifier {
 public:
  void Ready(const std::string& status) override;
  void Status(const std::string& status) override;
  void Stopping(std::chrono::milliseconds at_most) override;
  void KeepAlive() override;
};

// How often KeepAlive is expected: half of the unit's WatchdogSec. None where the unit sets none.
std::optional<std::chrono::microseconds> WatchdogInterval();

}  // namespace kiln
