// Ends another thread's poll.
#pragma once

#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// A flag with a descriptor that is readable while it is set. Thread-safe; never blocks for long.
class WakeEvent {
 public:
  // Makes the descriptor, unless there is one. After an error, an ErrnoStatus, the flag works
  // without a descriptor, and Open may be called again.
  absl::Status Open();

  void Set();
  void Clear();
  // -1, which poll ignores, before Open.
  int fd() const;

 private:
  mutable Mutex mutex_;
  bool is_set_ KILN_GUARDED_BY(mutex_) = false;
  UniqueFd event_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
