#include "client/launch/kernel_timer.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kiln::launch {
namespace {

// The launches of one kernel that may be measured at once.
constexpr size_t kPendingMax = 1024;

}  // namespace

KernelTimer::Measurement::Measurement(KernelTimer& timer, Stream stream)
    : timer_(timer), stream_(stream) {
  const MutexLock lock(timer.mutex_);
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
  const MutexLock lock(timer_.mutex_);
  GiveBack();
}

void KernelTimer::Measurement::End() {
  if (begin_ == nullptr) return;
  const MutexLock lock(timer_.mutex_);
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
  const StatusOr<Event> made = driver_.MakeEvent();
  return made.ok() ? *made : nullptr;
}

void KernelTimer::HarvestFinished() {
  while (!pending_.empty()) {
    const StatusOr<bool> happened = driver_.HasHappened(pending_.front().end);
    if (happened.ok() && !*happened) return;
    if (!HarvestFirst().ok() || !happened.ok()) ++times_.dropped;
  }
}

Status KernelTimer::HarvestFirst() {
  assert(!pending_.empty());
  const Pending pending = pending_.front();
  pending_.erase(pending_.begin());
  ++harvested_;
  free_.push_back(pending.begin);
  free_.push_back(pending.end);
  LAUNCH_ASSIGN_OR_RETURN(const float ms, driver_.MillisecondsBetween(pending.begin, pending.end));
  times_.min_ms = times_.launches == 0 ? ms : std::min<double>(times_.min_ms, ms);
  times_.max_ms = std::max<double>(times_.max_ms, ms);
  times_.total_ms += ms;
  ++times_.launches;
  return Status();
}

StatusOr<kiln_launch_times> KernelTimer::Read(bool resets) {
  const MutexLock reading(reading_);
  const ScopedRelaxedCapture relaxed(driver_);
  MutexLock lock(mutex_);
  // Excludes launches that begin after this line.
  const uint64_t until = harvested_ + pending_.size();
  while (harvested_ < until) {
    const uint64_t turn = harvested_;
    const Event end = pending_.front().end;
    lock.Unlock();
    LAUNCH_RETURN_IF_ERROR(driver_.Wait(end));
    lock.Lock();
    if (harvested_ == turn) LAUNCH_RETURN_IF_ERROR(HarvestFirst());
  }
  return resets ? std::exchange(times_, {}) : times_;
}

void KernelTimer::Release(Context context) {
  const MutexLock lock(mutex_);
  // Without events there is nothing to do in the context, which may be gone.
  if (free_.empty() && pending_.empty()) return;
  const ScopedContext scope(driver_, context);
  const ScopedRelaxedCapture relaxed(driver_);
  if (scope.status().ok()) {  // otherwise the events went with their context
    for (const Event event : free_) driver_.DestroyEvent(event);
    for (const Pending& pending : pending_) {
      driver_.DestroyEvent(pending.begin);
      driver_.DestroyEvent(pending.end);
    }
  }
  free_.clear();
  harvested_ += pending_.size();
  pending_.clear();
}

}  // namespace kiln::launch
