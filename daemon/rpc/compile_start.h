// The way of one request from the wire into the compile path; what a call and an item of a stream
// have in common.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// What the caller is told beside the artifact.
struct AnswerRemarks {
  // It was compiled though its job was warmed.
  bool missed_after_warm = false;
  // A warm got it, and it found no room among the leases.
  bool not_leased = false;
};

// The answer, and what the request wanted of it. `job` is absent where the request did not even get
// a key. Who keeps `pass` until the answer has been sent sees to it that a draining daemon waits
// for that.
struct CompileAnswer {
  absl::StatusOr<CompileResult> result;
  CompileJobPtr job;
  RequestGate::Pass pass = nullptr;
  AnswerRemarks remarks = {};
};
using CompileAnswered = std::function<void(CompileAnswer)>;

std::optional<Digest> KeyOf(const CompileAnswer& answer);

// A resolved request, or the error of a wrong one. The first takes the message apart. The second
// takes the bytes of the wire, and recognises them the next time.
using Prepared = absl::StatusOr<std::shared_ptr<const PreparedRequest>>;
Prepared Prepare(const RpcDependencies& parts, v1::CompileRequest&& request);
Prepared Prepare(const RpcDependencies& parts, std::string_view wire_bytes);

// The answer that needs no compile: what is stored, or what is wrong. Nothing: StartCompile has to
// say. Ask it first.
std::optional<CompileAnswer> FindAnswer(const RpcDependencies& parts, const CallContext& call,
                                        const Prepared& request);
// Starts what was prepared, or answers with why it could not be. Calls `answered` exactly once, on
// any thread, possibly before it returns. REQUIRES: request.ok().
void StartCompile(const RpcDependencies& parts, const CallContext& call, const Prepared& request,
                  CompileAnswered answered);

}  // namespace kiln
