// Statuses that cross threads.
#pragma once

#include "storage/base/status.h"

namespace kiln {

// An equal status (without payloads) that shares no memory with `status`. Copies of a status count
// their references inside Debian's Abseil, where ThreadSanitizer cannot see them, so that a copy in
// another thread looks like a race to it.
inline absl::Status Unshared(const absl::Status& status) {
  return status.ok() ? absl::OkStatus() : MakeStatus(status.code(), "{}", Message(status));
}

}  // namespace kiln
