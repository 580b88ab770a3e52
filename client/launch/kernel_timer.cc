#include "client/launch/kernel_timer.h"

#include <algorithm>
#include <utility>

namespace kiln::launch {
namespace {

// Pairs of events of one kernel.
constexpr size_t kPendingMax = 1024;

}  // namespace

KernelTimer::Measurement::Measurement(KernelTimer& timer, Stream stream)
    // From here on it is destroyed, so gives back what it has, where an exception comes.
    : Measurement(timer, stream, NotBegun()) {
  const std::lock_guard lock(timer.mutex_);
  const ScopedRelaxedCapture relaxed(timer.driver_);
  if (timer.pending_.size() >= kPendingMax) timer.HarvestFinished();
  if (timer.pending_.size() < kPendingMax) {
    begin_ = timer.TakeEvent();
    end_ = timer.TakeEvent();
  }
  if (begin_ == nullptr || end_ == nullptr || !timer.driver_.Record(begin_, stream).ok()) {
    GiveBack();
    ++timer.times_.dropped;
  }
}

KernelTimer::Measurement::~Measurement() {
  if (begin_ == nullptr) return;
  const std::lock_guard lock(timer_.mutex_);
  GiveBack();
}

void KernelTimer::Measurement::End() {
  if (begin_ == nullptr) return;
  const std::lock_guard lock(timer_.mutex_);
  if (timer_.driver_.Record(end_, stream_).ok()) {
    timer_.pending_.push_back({begin_, end_});
    begin_ = end_ = nullptr;
  } else {
    GiveBack();
    ++timer_.times_.dropped;
  }
}

void KernelTimer::Measurement::GiveBack() {
  if (begin_ != nullptr) timer_.free_.push_back(begin_);
  if (end_ != nullptr) timer_.free_.push_back(end_);
  begin_ = end_ = nullptr;
}

Event KernelTimer::TakeEvent() {
  if (!free_.empty()) {
    const Event event = free_.back();
    free_.pop_back();
    return event;
  }
  // So that it can be given back where there is no memory.
  free_.reserve(events_ + 1);
  StatusOr<Event> made = driver_.MakeEvent();
  if (!made.ok()) return nullptr;
  ++events_;
  return *made;
}

void KernelTimer::HarvestFinished() {
  while (!pending_.empty()) {
    const StatusOr<bool> happened = driver_.HasHappened(pending_.front().end);
    if (happened.ok() && !*happened) return;
    const Pending next = pending_.front();
    pending_.pop_front();
    if (!happened.ok() || !Harvest(next).ok()) ++times_.dropped;
  }
}

Status KernelTimer::Harvest(const Pending& pending) {
  free_.push_back(pending.begin);
  free_.push_back(pending.end);
  LAUNCH_ASSIGN_OR_RETURN(const float ms, driver_.MillisecondsBetween(pending.begin, pending.end));
  times_.min_ms = times_.launches == 0 ? ms : std::min<double>(times_.min_ms, ms);
  times_.max_ms = std::max<double>(times_.max_ms, ms);
  times_.total_ms += ms;
  ++times_.launches;
  return Status();
}

StatusOr<KernelTimes> KernelTimer::Read(bool resets) {
  const std::lock_guard reading(reading_);
  std::deque<Pending> pending = TakePending();
  const Status status = HarvestAll(pending);
  const std::lock_guard lock(mutex_);
  // Those that it did not come to.
  pending_.insert(pending_.begin(), pending.begin(), pending.end());
  LAUNCH_RETURN_IF_ERROR(status);
  return resets ? std::exchange(times_, {}) : times_;
}

std::deque<KernelTimer::Pending> KernelTimer::TakePending() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

Status KernelTimer::HarvestAll(std::deque<Pending>& pending) {
  const ScopedRelaxedCapture relaxed(driver_);
  while (!pending.empty()) {
    const Pending next = pending.front();
    // Launches go on in the meantime.
    LAUNCH_RETURN_IF_ERROR(driver_.Wait(next.end));
    pending.pop_front();
    const std::lock_guard lock(mutex_);
    LAUNCH_RETURN_IF_ERROR(Harvest(next));
  }
  return Status();
}

void KernelTimer::Release() {
  const std::lock_guard lock(mutex_);
  for (const Event event : free_) driver_.DestroyEvent(event);
  for (const Pending& pending : pending_) {
    driver_.DestroyEvent(pending.begin);
    driver_.DestroyEvent(pending.end);
  }
  free_.clear();
  pending_.clear();
  events_ = 0;
}

}  // namespace kiln::launch
