// One bidirectional stream on one connection.
#pragma once

#include <functional>

#include "client/rpc/request_window.h"
#include "client/rpc/watched_call.h"

namespace kiln {

// Checks an answer and fetches what did not travel with it.
using AnswerCompletion = std::function<absl::Status(v1::CompileResponse&)>;

// Sends the requests that are due in the window and gives it the answers. OK: every request is
// answered. Otherwise why the stream ended; unanswered requests stay in the window. Runs on the
// calling thread.
[[nodiscard]] absl::Status RunCompileStream(KernelStub& stub, const CallLimits& limits,
                                            const AnswerCompletion& complete,
                                            RequestWindow& window);

}  // namespace kiln
