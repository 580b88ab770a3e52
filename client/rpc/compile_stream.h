// One bidirectional stream on one connection.
#pragma once

#include <functional>

#include "client/rpc/request_window.h"
#include "client/rpc/service_calls.h"

namespace kiln {

// Checks an answer and fetches what did not travel with it.
using AnswerCompletion = std::function<absl::Status(v1::CompileResponse&)>;

// Sends what the window has due and gives it the answers, until everything is answered (OK) or the
// stream ends (why). What is unanswered then stays in the window. Runs on the calling thread alone.
[[nodiscard]] absl::Status RunCompileStream(KernelStub& stub, const CallLimits& limits,
                                            const AnswerCompletion& complete,
                                            RequestWindow& window);

}  // namespace kiln
