// Many requests over one connection of the light protocol (protos/kiln/v1/light.proto).
#pragma once

#include <chrono>
#include <functional>

#include "client/rpc/compile_stream.h"
#include "kiln/v1/light.pb.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Whether the daemon lives. Blocks for at most the budget.
using LifeQuestion = std::function<bool(std::chrono::milliseconds budget)>;

// As RunCompileStream, over `socket`, a new connection to the daemon. A hit takes half of the
// processor time that gRPC's stream takes. UNIMPLEMENTED: the other end does not speak the
// protocol; no request was answered.
[[nodiscard]] absl::Status RunLightStream(UniqueFd socket, const CallLimits& limits,
                                          const LifeQuestion& shows_life,
                                          const AnswerCompletion& complete, RequestWindow& window);

// Sends one request over `socket`, a new connection. Whether the daemon answers anything within
// `budget`.
[[nodiscard]] bool IsAnswered(UniqueFd socket, v1::LightMethod method,
                              const google::protobuf::MessageLite& body,
                              std::chrono::milliseconds budget);

}  // namespace kiln
