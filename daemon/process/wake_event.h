// Ends another thread's poll.
#pragma once

#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// A flag with a descriptor that is readable while it is set. Thread-safe; never blocks for long.
class WakeEvent {
 public:
  // Gives it its descriptor, unless it has it. Where there is none left, the flag is a flag all the
  // same, and it may be tried again. Errors are those of ErrnoStatus.
  absl::Status Open();

  void Set();
  void Clear();
  // -1, of which poll takes no notice, before it is open.
  int fd() const;

 private:
  mutable Mutex mutex_;
  bool is_set_ KILN_GUARDED_BY(mutex_) = false;
  UniqueFd event_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
