// A CompileResponse as bytes, without copying what was compiled.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <span>
#include <string>

#include "daemon/kernel/kernel.h"
#include "daemon/rpc/description_memo.h"

namespace kiln {

// Exactly what serializing the message of ToProto(artifact, …) gives a parser, but the content of
// the stages is not copied: the buffer shares it with the artifact. Nor is encoded again what the
// memo knows. Errors as there.
absl::StatusOr<grpc::ByteBuffer> SerializeReply(const Artifact& artifact, Outcome outcome,
                                                std::optional<Tier> tier,
                                                std::span<const std::string> stages,
                                                DescriptionMemo& descriptions);

}  // namespace kiln
