#include "daemon/rpc/status.h"

#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

std::string Headline(const CompileFailure& failure) {
  std::string place;
  if (failure.line > 0) place = fmt::format(" (line {}, column {})", failure.line, failure.column);
  return fmt::format("{}: {}{}", failure.stage.empty() ? "compile" : failure.stage, failure.message,
                     place);
}

void AddKey(const Digest& key, v1::RpcStatus& details) {
  v1::RequestKey request;
  request.set_key(std::string(key.Bytes()));
  details.add_details()->PackFrom(request);
}

v1::RpcStatus StatusOf(absl::StatusCode code, std::string_view text) {
  v1::RpcStatus status;
  status.set_code(static_cast<int>(code));
  status.set_message(CutForTrailer(text, limits::kStatusMessageBytesMax));
  return status;
}

}  // namespace

v1::RpcStatus ToRpcStatus(const absl::Status& status, const std::optional<Digest>& key) {
  v1::RpcStatus out = StatusOf(status.code(), Message(status));
  if (const auto delay = RetryAfter(status)) {
    v1::RetryHint hint;
    hint.set_retry_after_ms(static_cast<uint32_t>(delay->count()));
    out.add_details()->PackFrom(hint);
  }
  if (key) AddKey(*key, out);
  return out;
}

v1::RpcStatus ToRpcStatus(const CompileFailure& failure, const Digest& key) {
  v1::CompileDiagnostics diagnostics;
  ToProto(failure, key, limits::kTrailerOutputBytesMax, diagnostics);
  diagnostics.set_message(
      CutForTrailer(diagnostics.message(), limits::kTrailerDiagnosticLineBytesMax));
  v1::RpcStatus out = StatusOf(failure.code, Headline(failure));
  out.add_details()->PackFrom(diagnostics);
  return out;
}

grpc::Status ToGrpcStatus(const v1::RpcStatus& status) {
  const auto code = static_cast<grpc::StatusCode>(status.code());
  if (status.details_size() == 0) return {code, status.message()};
  return {code, status.message(), status.SerializeAsString()};
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return ToGrpcStatus(ToRpcStatus(status));
}

void SetError(const absl::Status& status, const std::optional<Digest>& key,
              v1::CompileStreamResponse& out) {
  if (key) out.set_key(std::string(key->Bytes()));
  out.set_code(static_cast<int>(status.code()));
  out.set_message(ToUtf8(Message(status)));
  if (const auto delay = RetryAfter(status)) {
    out.set_retry_after_ms(static_cast<uint32_t>(delay->count()));
  }
}

void SetError(const CompileFailure& failure, const Digest& key, v1::CompileStreamResponse& out) {
  out.set_code(static_cast<int>(failure.code));
  out.set_message(ToUtf8(Headline(failure)));
  out.set_key(std::string(key.Bytes()));
  ToProto(failure, key, limits::kDiagnosticsBytesMax, *out.mutable_diagnostics());
}

}  // namespace kiln
