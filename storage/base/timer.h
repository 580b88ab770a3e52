// Callbacks at a given time, injected so that tests need not wait.
#pragma once

#include <functional>
#include <memory>

#include "storage/base/clock.h"

namespace kiln {

// A scheduled callback. When its destructor returns, the callback is not running and never will be,
// except where the callback itself destroys it.
class Alarm {
 public:
  virtual ~Alarm() = default;
};

// Thread-safe. Callbacks must not block.
class Timer {
 public:
  virtual ~Timer() = default;

  // Runs `callback` once, at `when` or soon after, unless the alarm is destroyed before. The timer
  // must outlive its alarms.
  [[nodiscard]] virtual std::unique_ptr<Alarm> At(SteadyTime when,
                                                  std::function<void()> callback) = 0;
};

}  // namespace kiln
