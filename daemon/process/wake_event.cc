#include "daemon/process/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace kiln {

absl::Status WakeEvent::Open() {
  const MutexLock lock(mutex_);
  if (!event_) event_ = UniqueFd(::eventfd(is_set_ ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK));
  return event_ ? absl::OkStatus() : ErrnoStatus(errno, "eventfd");
}

void WakeEvent::Set() {
  const MutexLock lock(mutex_);
  is_set_ = true;
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the flag is set.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

void WakeEvent::Clear() {
  const MutexLock lock(mutex_);
  is_set_ = false;
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
}

int WakeEvent::fd() const {
  const MutexLock lock(mutex_);
  return event_.get();
}

}  // namespace kiln
