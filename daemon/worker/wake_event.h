// Ends another thread's poll.
#pragma once

#include "storage/base/unique_fd.h"

namespace kiln {

// A flag with a descriptor that is readable while it is set. Thread-safe; never blocks.
class WakeEvent {
 public:
  // Aborts the process where there is no descriptor left for it: nothing could be cancelled.
  WakeEvent();

  void Set();
  void Clear();
  int fd() const { return event_.get(); }

 private:
  UniqueFd event_;
};

}  // namespace kiln
