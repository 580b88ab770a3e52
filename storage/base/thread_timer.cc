#include "storage/base/thread_timer.h"

#include <cassert>
#include <mutex>
#include <utility>

#include "storage/base/mutex.h"

namespace kiln {

// The callback runs under `running`, so Cancel waits for the callback. The mutex is recursive, so a
// callback may destroy its own alarm. Nobody takes it while holding the timer's mutex.
struct ThreadTimer::Entry {
  std::recursive_mutex running;
  std::function<void()> callback;
  // The timer's mutex guards both.
  Queue::iterator place;
  bool is_queued = false;

  void Run() {
    std::lock_guard lock(running);
    if (auto run = std::exchange(callback, nullptr)) run();
  }
};

class ThreadTimer::EntryAlarm final : public Alarm {
 public:
  EntryAlarm(ThreadTimer& timer, std::shared_ptr<Entry> entry)
      : timer_(timer), entry_(std::move(entry)) {}
  ~EntryAlarm() override { timer_.Cancel(*entry_); }

 private:
  ThreadTimer& timer_;
  std::shared_ptr<Entry> entry_;
};

ThreadTimer::ThreadTimer() : thread_([this] { Loop(); }) {}

ThreadTimer::~ThreadTimer() {
  {
    MutexLock lock(mutex_);
    assert(queue_.empty());
    stopping_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

std::unique_ptr<Alarm> ThreadTimer::At(SteadyTime when, std::function<void()> callback) {
  auto entry = std::make_shared<Entry>();
  entry->callback = std::move(callback);
  bool is_earliest;
  {
    MutexLock lock(mutex_);
    entry->place = queue_.emplace(when, entry);
    entry->is_queued = true;
    is_earliest = when < wakes_at_;
    if (is_earliest) wakes_at_ = when;
  }
  if (is_earliest) changed_.NotifyOne();
  return std::make_unique<EntryAlarm>(*this, std::move(entry));
}

void ThreadTimer::Cancel(Entry& entry) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(entry.is_queued, false)) queue_.erase(entry.place);
  }
  std::lock_guard lock(entry.running);
  entry.callback = nullptr;
}

void ThreadTimer::Loop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto first = queue_.begin();
    if (first != queue_.end() && first->first <= std::chrono::steady_clock::now()) {
      const std::shared_ptr<Entry> entry = first->second;
      entry->is_queued = false;
      queue_.erase(first);
      lock.Unlock();
      entry->Run();
      lock.Lock();
      continue;
    }
    wakes_at_ = first == queue_.end() ? SteadyTime::max() : first->first;
    if (wakes_at_ == SteadyTime::max()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, wakes_at_);
    }
  }
}

}  // namespace kiln
