#include "daemon/observe/service_notifier.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <algorithm>

namespace kiln {
namespace {

// Failing to reach the service manager must not stop the service.
void Notify(const std::string& state) { (void)::sd_notify(/*unset_environment=*/0, state.c_str()); }

// One assignment a line: a line break in a status would be read as another one.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

void ServiceNotifier::Ready(const std::string& status) {
  Notify(fmt::format("READY=1\nSTATUS={}", OneLine(status)));
}

void ServiceNotifier::Status(const std::string& status) {
  Notify(fmt::format("STATUS={}", OneLine(status)));
}

void ServiceNotifier::Stopping(std::chrono::milliseconds at_most) {
  Notify(fmt::format("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={}",
                     std::chrono::microseconds(at_most).count()));
}

void ServiceNotifier::KeepAlive() { Notify("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> WatchdogInterval() {
  uint64_t micros = 0;
  if (::sd_watchdog_enabled(/*unset_environment=*/0, &micros) <= 0) return std::nullopt;
  return std::chrono::microseconds(micros / 2);
}

}  // namespace kiln
