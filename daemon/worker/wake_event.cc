#include "daemon/worker/wake_event.h"

#include <sys/eventfd.h>

#include <cstdint>
#include <cstdlib>

#include "storage/base/log.h"

namespace kiln {

WakeEvent::WakeEvent() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) {
    LogError("no eventfd: raise the limit on open files");
    std::abort();
  }
}

void WakeEvent::Set() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the flag is set.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

void WakeEvent::Clear() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
}

}  // namespace kiln
