#include "storage/base/call_context.h"

#include <utility>
#include <vector>

#include "storage/base/mutex.h"

namespace kiln {

// The callback runs under `mutex`, so Reset() waits for the callback. The mutex is recursive, so a
// callback may drop its own registration.
struct Cancellation::Registration::Slot {
  std::recursive_mutex mutex;
  std::function<void()> callback;

  void Run() {
    std::lock_guard lock(mutex);
    // Moved out, so that its captures are released after the one call.
    if (auto run = std::exchange(callback, nullptr)) run();
  }
};

struct Cancellation::State {
  Mutex mutex;
  bool cancelled KILN_GUARDED_BY(mutex) = false;
  std::vector<std::weak_ptr<Registration::Slot>> slots KILN_GUARDED_BY(mutex);
};

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::Cancel() {
  std::vector<std::weak_ptr<Registration::Slot>> slots;
  {
    MutexLock lock(state_->mutex);
    if (state_->cancelled) return;
    state_->cancelled = true;
    slots.swap(state_->slots);
  }
  for (const auto& weak : slots) {
    if (const auto slot = weak.lock()) slot->Run();
  }
}

bool Cancellation::IsCancelled() const {
  MutexLock lock(state_->mutex);
  return state_->cancelled;
}

Cancellation::Registration Cancellation::OnCancel(std::function<void()> callback) const {
  Registration registration;
  registration.slot_ = std::make_shared<Registration::Slot>();
  registration.slot_->callback = std::move(callback);
  {
    MutexLock lock(state_->mutex);
    if (!state_->cancelled) {
      // Drops slots of ended registrations before the vector grows.
      if (state_->slots.size() == state_->slots.capacity()) {
        std::erase_if(state_->slots, [](const auto& slot) { return slot.expired(); });
      }
      state_->slots.push_back(registration.slot_);
      return registration;
    }
  }
  registration.slot_->Run();
  return registration;
}

Cancellation::Registration& Cancellation::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Reset();
    slot_ = std::move(other.slot_);
  }
  return *this;
}

void Cancellation::Registration::Reset() {
  if (const auto slot = std::exchange(slot_, nullptr)) {
    std::lock_guard lock(slot->mutex);
    slot->callback = nullptr;
  }
}

absl::Status StillWanted(const CallContext& context, const Clock& clock) {
  if (context.cancellation.IsCancelled()) return Cancelled("the caller went away");
  if (context.deadline && clock.Now() >= *context.deadline) {
    return DeadlineExceeded("the caller's deadline has passed");
  }
  return absl::OkStatus();
}

}  // namespace kiln
