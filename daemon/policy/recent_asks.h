// Whether jobs ask for kernels just now.
#pragma once

#include <atomic>

#include "storage/base/call_context.h"
#include "storage/base/clock.h"

namespace kiln {

// Thread-safe; does not block.
class RecentAsks {
 public:
  explicit RecentAsks(const Clock& clock) : clock_(clock) {}

  // Somebody asked. Counts where they wait for the answer.
  void Note(Priority priority);

  // Whether one who waits asked within the last second.
  bool JobsAsk() const;

 private:
  const Clock& clock_;
  std::atomic<SteadyTime> asked_at_ = SteadyTime::min();
};

}  // namespace kiln
