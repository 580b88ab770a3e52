// A CompileResponse as bytes.
#pragma once

#include <absl/container/inlined_vector.h>

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/kernel/kernel.h"
#include "daemon/rpc/compile_start.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/blob.h"

namespace kiln {

// One piece of a serialized message after the other. A Blob is shared, not copied.
using ReplyPiece = std::variant<std::string, Blob>;
using ReplyPieces = absl::InlinedVector<ReplyPiece, 4>;
std::string_view BytesOf(const ReplyPiece& piece);
size_t SizeOf(const ReplyPieces& pieces);

// The artifact's metadata, timings and provenance as fields of a CompileResponse. The artifact
// keeps them.
const std::string& DescriptionOf(const Artifact& artifact);

// Exactly what serializing the message of ToProto(artifact, …) gives a parser, but a large content
// is not copied: the reply shares it with the artifact. Errors as there.
absl::StatusOr<ReplyPieces> SerializeReply(const Artifact& artifact, Outcome outcome,
                                           std::optional<Tier> tier,
                                           std::span<const std::string> stages);
// The answer to a compile: that reply, or an error.
using CompileReply = std::variant<ReplyPieces, v1::RpcStatus>;
CompileReply SerializeAnswer(const CompileAnswer& answer);
// Where an answer of a stream stands: as a message for a client that takes one at a time, as the
// beginning of a message, or behind that.
enum class StreamPlace { kAlone, kFirst, kMore };
// The bytes of a CompileStreamResponse, of errors too.
ReplyPieces SerializeStreamAnswer(uint64_t id, const CompileAnswer& answer, StreamPlace place);
// A FetchChunk that has all of the blob.
ReplyPieces SerializeChunk(const Blob& content);

}  // namespace kiln
