#include "client/rpc/status_details.h"

#include <absl/strings/cord.h>

#include <string_view>

namespace kiln {
namespace {

// A code that this build does not know comes from a newer daemon.
absl::StatusCode CodeOf(int code) {
  if (code <= 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::StatusCode::kUnknown;
  }
  return static_cast<absl::StatusCode>(code);
}

// The type URL that google.protobuf.Any has for the message.
template <typename Message>
std::string UrlOf() {
  return "type.googleapis.com/" + Message::descriptor()->full_name();
}

template <typename Message>
void Attach(const Message& message, absl::Status& status) {
  status.SetPayload(UrlOf<Message>(), absl::Cord(message.SerializeAsString()));
}

template <typename Message>
std::optional<Message> PayloadOf(const absl::Status& status) {
  const auto payload = status.GetPayload(UrlOf<Message>());
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

// How gRPC in the daemon ends a call whose request is larger than what it may buffer: HTTP/2's
// ENHANCE_YOUR_CALM.
constexpr std::string_view kNoBuffer = "Received RST_STREAM with error code 11";

absl::Status NoBuffer() {
  absl::Status status = ResourceExhausted(
      "the daemon has no memory left for requests of this size: many users are connected, or much "
      "is on its way");
  v1::RetryHint hint;
  hint.set_retry_after_ms(1000);
  Attach(hint, status);
  return status;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_message() == kNoBuffer) return NoBuffer();
  absl::Status converted(CodeOf(status.error_code()), status.error_message());
  v1::RpcStatus details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      converted.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return converted;
}

absl::Status FromStreamAnswer(const v1::CompileStreamResponse& answer) {
  if (answer.code() == 0) return absl::OkStatus();
  absl::Status converted(CodeOf(answer.code()), answer.message());
  if (answer.has_diagnostics()) Attach(answer.diagnostics(), converted);
  if (answer.retry_after_ms() != 0) {
    v1::RetryHint hint;
    hint.set_retry_after_ms(answer.retry_after_ms());
    Attach(hint, converted);
  }
  if (!answer.key().empty()) {
    v1::RequestKey request;
    request.set_key(answer.key());
    Attach(request, converted);
  }
  return converted;
}

bool IsCompilersVerdict(const absl::Status& status) {
  // With any other code the compiler broke instead of deciding.
  const bool is_decision = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
  return is_decision && DiagnosticsOf(status).has_value();
}

std::optional<v1::CompileDiagnostics> DiagnosticsOf(const absl::Status& status) {
  return PayloadOf<v1::CompileDiagnostics>(status);
}

std::string RequestKeyOf(const absl::Status& status) {
  if (const auto request = PayloadOf<v1::RequestKey>(status)) return request->key();
  const auto diagnostics = DiagnosticsOf(status);
  return diagnostics.has_value() ? diagnostics->key() : "";
}

std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status) {
  const auto hint = PayloadOf<v1::RetryHint>(status);
  if (!hint.has_value()) return std::nullopt;
  return std::chrono::milliseconds(hint->retry_after_ms());
}

}  // namespace kiln
