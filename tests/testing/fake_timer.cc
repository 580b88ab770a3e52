#include "tests/testing/fake_timer.h"

#include <algorithm>
#include <utility>

namespace kiln {

class FakeTimer::Entry final : public Alarm {
 public:
  Entry(FakeTimer& timer, uint64_t id) : timer_(timer), id_(id) {}
  ~Entry() override {
    bool has_rung;
    {
      std::lock_guard lock(timer_.mutex_);
      has_rung = timer_.alarms_.erase(id_) == 0;
    }
    if (has_rung) std::lock_guard wait_for_callback(timer_.running_);
  }

 private:
  FakeTimer& timer_;
  const uint64_t id_;
};

std::unique_ptr<Alarm> FakeTimer::At(SteadyTime when, std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  alarms_.emplace(id, std::pair(when, std::move(callback)));
  return std::make_unique<Entry>(*this, id);
}

void FakeTimer::Advance(std::chrono::nanoseconds by) {
  clock_.Advance(by);
  std::lock_guard running(running_);
  while (const auto callback = TakeDue()) callback();
}

std::function<void()> FakeTimer::TakeDue() {
  std::lock_guard lock(mutex_);
  const auto earliest = std::min_element(
      alarms_.begin(), alarms_.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  if (earliest == alarms_.end() || earliest->second.first > clock_.Now()) return nullptr;
  return std::move(alarms_.extract(earliest).mapped().second);
}

size_t FakeTimer::PendingCount() const {
  std::lock_guard lock(mutex_);
  return alarms_.size();
}

}  // namespace kiln
