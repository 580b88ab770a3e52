// Answers to compiles from the hot directory, without a call.
#pragma once

#include "client/rpc/hot_reader.h"
#include "client/rpc/verified_contents.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// The answer that the daemon would give from its cache: computes the request's key as the daemon
// does, with the daemon's own code, and reads the artifact's file. Its blob has been checked
// against its digest. Whatever is missing, damaged or in doubt is an error: the daemon knows, and
// says what is wrong. Thread-safe. Blocks as HotReader does.
[[nodiscard]] absl::StatusOr<v1::CompileResponse> FindHotAnswer(const HotReader& reader,
                                                                VerifiedContents& verified,
                                                                const v1::CompileRequest& request);

}  // namespace kiln
