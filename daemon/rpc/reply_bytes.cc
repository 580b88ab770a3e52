#include "daemon/rpc/reply_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

#include "daemon/messages/translate.h"
#include "daemon/rpc/status.h"

namespace kiln {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// The beginning of a length-delimited field.
void AppendFieldStart(int field, size_t length, std::string& out) {
  const uint32_t tag = WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  uint8_t bytes[20];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(tag, bytes);
  end = CodedOutputStream::WriteVarint64ToArray(length, end);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

class ReplyWriter {
 public:
  void Append(const std::string& bytes) { pending_ += bytes; }

  void AppendStage(const v1::StageBlob& header, const Blob& content) {
    const std::string encoded = header.SerializeAsString();
    std::string content_start;
    AppendFieldStart(v1::StageBlob::kContentFieldNumber, content.size_bytes(), content_start);
    AppendFieldStart(v1::CompileResponse::kStagesFieldNumber,
                     encoded.size() + content_start.size() + content.size_bytes(), pending_);
    pending_ += encoded + content_start;
    Flush();
    pieces_.emplace_back(content);
  }

  ReplyPieces Finish() {
    Flush();
    return std::move(pieces_);
  }

 private:
  void Flush() {
    if (!pending_.empty()) pieces_.emplace_back(std::exchange(pending_, {}));
  }

  std::string pending_;
  ReplyPieces pieces_;
};

}  // namespace

std::string_view BytesOf(const ReplyPiece& piece) {
  if (const Blob* shared = std::get_if<Blob>(&piece)) return shared->bytes();
  return std::get<std::string>(piece);
}

ReplyPieces SerializeChunk(const Blob& content) {
  std::string start;
  AppendFieldStart(v1::FetchChunk::kContentFieldNumber, content.size_bytes(), start);
  return {std::move(start), content};
}

absl::StatusOr<ReplyPieces> SerializeReply(const Artifact& artifact, Outcome outcome,
                                           std::optional<Tier> tier,
                                           std::span<const std::string> stages,
                                           DescriptionMemo& descriptions) {
  v1::CompileResponse head;
  KILN_ASSIGN_OR_RETURN(const ReplyStages selected, SelectStages(artifact, stages));
  ToProto(artifact.key, outcome, tier, head);
  ReplyWriter writer;
  writer.Append(head.SerializeAsString());
  writer.Append(*descriptions.Encode(artifact));
  for (const StageBlob* stage : selected.stages) {
    v1::StageBlob header;
    ToProto(*stage, header);
    if (selected.is_inline) {
      writer.AppendStage(header, stage->blob);
    } else {
      std::string field;
      const std::string encoded = header.SerializeAsString();
      AppendFieldStart(v1::CompileResponse::kStagesFieldNumber, encoded.size(), field);
      writer.Append(field + encoded);
    }
  }
  return writer.Finish();
}

CompileReply SerializeAnswer(const CompileAnswer& answer, DescriptionMemo& descriptions) {
  if (!answer.result.ok()) return ToRpcStatus(answer.result.status(), KeyOf(answer));
  const CompileResult& result = *answer.result;
  if (const CompileFailure* failure = result.failure()) {
    return ToRpcStatus(*failure, answer.job->key);
  }
  absl::StatusOr<ReplyPieces> pieces = SerializeReply(
      *result.artifact(), result.outcome, result.tier, answer.job->request.stages, descriptions);
  if (!pieces.ok()) return ToRpcStatus(pieces.status());
  return *std::move(pieces);
}

}  // namespace kiln
