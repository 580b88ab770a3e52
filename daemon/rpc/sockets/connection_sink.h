// Where accepted connections go.
#pragma once

#include "storage/base/call_context.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Called on the listener's thread only.
class ConnectionSink {
 public:
  virtual ~ConnectionSink() = default;

  // Serves a connected, non-blocking socket of `principal`. On an error the connection is closed.
  virtual absl::Status Serve(UniqueFd connection, const Principal& principal) = 0;
  // A connection of `principal` has ended.
  virtual void OnClosed(const Principal& principal) = 0;
  // Closes connections on which nothing happened since the last call.
  virtual void CloseSilent() {}
};

}  // namespace kiln
