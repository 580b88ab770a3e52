// The daemon's timer.
#pragma once

#include <map>
#include <memory>
#include <thread>

#include "storage/base/clock.h"
#include "storage/base/mutex.h"
#include "storage/base/timer.h"

namespace kiln {

// One thread sleeps until the next alarm is due and runs the callbacks one after the other, without
// a lock of the timer.
//
// Most alarms are deadlines of calls that end long before. Setting an alarm costs a map insertion,
// and wakes the thread only where the alarm is due before all others. Clearing one wakes nobody.
class ThreadTimer final : public Timer {
 public:
  ThreadTimer();
  // REQUIRES: every alarm is destroyed or has run.
  ~ThreadTimer() override;

  std::unique_ptr<Alarm> At(SteadyTime when, std::function<void()> callback) override;

 private:
  struct Entry;
  class EntryAlarm;
  using Queue = std::multimap<SteadyTime, std::shared_ptr<Entry>>;

  void Loop();
  void Cancel(Entry& entry);

  Mutex mutex_;
  CondVar changed_;
  Queue queue_ KILN_GUARDED_BY(mutex_);
  SteadyTime wakes_at_ KILN_GUARDED_BY(mutex_) = SteadyTime::max();
  bool stopping_ KILN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kiln
