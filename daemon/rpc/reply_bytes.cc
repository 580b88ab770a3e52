#include "daemon/rpc/reply_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/messages/translate.h"
#include "daemon/rpc/status.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr size_t kFieldBytesMax = 20;  // a tag and a number
// To copy a content of this size costs less than to keep it alive until it is sent.
constexpr size_t kCopiedBytesMax = 64 * limits::kKiB;

void AppendNumber(int field, uint64_t value, std::string& out,
                  WireFormatLite::WireType type = WireFormatLite::WIRETYPE_VARINT) {
  uint8_t bytes[kFieldBytesMax];
  uint8_t* end =
      CodedOutputStream::WriteVarint32ToArray(WireFormatLite::MakeTag(field, type), bytes);
  end = CodedOutputStream::WriteVarint64ToArray(value, end);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

// The beginning of a length-delimited field.
void AppendFieldStart(int field, size_t length, std::string& out) {
  AppendNumber(field, length, out, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

void AppendBytes(int field, std::string_view bytes, std::string& out) {
  AppendFieldStart(field, bytes.size(), out);
  out += bytes;
}

// A StageBlob up to its content. Valid until this thread makes the next one.
std::string_view StageHead(const StageBlob& stage, bool is_inline) {
  thread_local std::string head;
  head.clear();
  AppendBytes(v1::StageBlob::kStageFieldNumber, stage.stage, head);
  AppendBytes(v1::StageBlob::kDigestFieldNumber, stage.blob.digest().Bytes(), head);
  const size_t size_bytes = stage.blob.size_bytes();
  if (size_bytes > 0) AppendNumber(v1::StageBlob::kSizeBytesFieldNumber, size_bytes, head);
  if (is_inline) AppendFieldStart(v1::StageBlob::kContentFieldNumber, size_bytes, head);
  return head;
}

}  // namespace

const std::string& DescriptionOf(const Artifact& artifact) {
  if (const std::string* known = artifact.description.Get()) return *known;
  v1::CompileResponse message;
  DescribeTo(artifact, message);
  return artifact.description.Set(std::make_unique<const std::string>(message.SerializeAsString()));
}

std::string_view BytesOf(const ReplyPiece& piece) {
  if (const Blob* shared = std::get_if<Blob>(&piece)) return shared->bytes();
  return std::get<std::string>(piece);
}

size_t SizeOf(const ReplyPieces& pieces) {
  size_t bytes = 0;
  for (const ReplyPiece& piece : pieces) bytes += BytesOf(piece).size();
  return bytes;
}

ReplyPieces SerializeChunk(const Blob& content) {
  std::string start;
  AppendFieldStart(v1::FetchChunk::kContentFieldNumber, content.size_bytes(), start);
  return {std::move(start), content};
}

absl::StatusOr<ReplyPieces> SerializeReply(const Artifact& artifact, Outcome outcome,
                                           std::optional<Tier> tier,
                                           std::span<const std::string> stages) {
  KILN_ASSIGN_OR_RETURN(const ReplyStages selected, SelectStages(artifact, stages));
  const std::string& description = DescriptionOf(artifact);
  ReplyPieces pieces;
  std::string next;  // up to the content that is shared
  size_t bytes = description.size() + 256;
  for (const StageBlob* stage : selected.stages) {
    const size_t size_bytes = stage->blob.size_bytes();
    if (selected.is_inline && size_bytes <= kCopiedBytesMax) bytes += size_bytes;
  }
  next.reserve(bytes);
  AppendBytes(v1::CompileResponse::kKeyFieldNumber, artifact.key.Bytes(), next);
  AppendNumber(v1::CompileResponse::kOutcomeFieldNumber, static_cast<uint64_t>(outcome), next);
  if (tier) AppendNumber(v1::CompileResponse::kTierFieldNumber, ToProto(*tier), next);
  next += description;
  for (const StageBlob* stage : selected.stages) {
    const std::string_view head = StageHead(*stage, selected.is_inline);
    const size_t content_bytes = selected.is_inline ? stage->blob.size_bytes() : 0;
    AppendFieldStart(v1::CompileResponse::kStagesFieldNumber, head.size() + content_bytes, next);
    next += head;
    if (!selected.is_inline) continue;
    if (content_bytes <= kCopiedBytesMax) {
      next += stage->blob.bytes();
      continue;
    }
    pieces.emplace_back(std::exchange(next, {}));
    pieces.emplace_back(stage->blob);
  }
  if (!next.empty()) pieces.emplace_back(std::move(next));
  return pieces;
}

namespace {

// REQUIRES: the answer is an artifact. The first piece is a string.
absl::StatusOr<ReplyPieces> ArtifactReply(const CompileAnswer& answer) {
  const CompileResult& result = *answer.result;
  auto pieces =
      SerializeReply(*result.artifact(), result.outcome, result.tier, answer.job->request.stages);
  std::string flags;
  if (answer.remarks.missed_after_warm) {
    AppendNumber(v1::CompileResponse::kMissedAfterWarmFieldNumber, 1, flags);
  }
  if (answer.remarks.not_leased) {
    AppendNumber(v1::CompileResponse::kNotLeasedFieldNumber, 1, flags);
  }
  if (pieces.ok() && !flags.empty()) pieces->emplace_back(std::move(flags));
  return pieces;
}

// The first piece is a string.
ReplyPieces StreamAnswer(uint64_t id, const CompileAnswer& answer) {
  absl::Status error = answer.result.status();
  const Artifact* artifact = error.ok() ? answer.result->artifact() : nullptr;
  ReplyPieces pieces;
  if (artifact != nullptr) {
    auto reply = ArtifactReply(answer);
    if (reply.ok()) {
      std::string start;
      AppendNumber(v1::CompileStreamResponse::kIdFieldNumber, id, start);
      AppendFieldStart(v1::CompileStreamResponse::kResponseFieldNumber, SizeOf(*reply), start);
      pieces.emplace_back(std::move(start));
      std::move(reply->begin(), reply->end(), std::back_inserter(pieces));
      return pieces;
    }
    error = reply.status();
  }
  v1::CompileStreamResponse message;
  message.set_id(id);
  if (error.ok()) {
    SetError(*answer.result->failure(), answer.job->key, message);
  } else {
    SetError(error, KeyOf(answer), message);
  }
  pieces.emplace_back(message.SerializeAsString());
  return pieces;
}

}  // namespace

ReplyPieces SerializeStreamAnswer(uint64_t id, const CompileAnswer& answer, StreamPlace place) {
  ReplyPieces pieces = StreamAnswer(id, answer);
  std::string start;
  if (place == StreamPlace::kFirst) {
    AppendNumber(v1::CompileStreamResponse::kTakesMoreFieldNumber, 1, start);
  } else if (place == StreamPlace::kMore) {
    AppendFieldStart(v1::CompileStreamResponse::kMoreFieldNumber, SizeOf(pieces), start);
  }
  std::get<std::string>(pieces.front()).insert(0, start);
  return pieces;
}

CompileReply SerializeAnswer(const CompileAnswer& answer) {
  if (!answer.result.ok()) return ToRpcStatus(answer.result.status(), KeyOf(answer));
  const CompileResult& result = *answer.result;
  if (const CompileFailure* failure = result.failure()) {
    return ToRpcStatus(*failure, answer.job->key);
  }
  absl::StatusOr<ReplyPieces> pieces = ArtifactReply(answer);
  if (!pieces.ok()) return ToRpcStatus(pieces.status(), KeyOf(answer));
  return *std::move(pieces);
}

}  // namespace kiln
