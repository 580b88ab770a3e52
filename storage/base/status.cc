#include "storage/base/status.h"

#include <absl/strings/cord.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace kiln {
namespace {

absl::StatusCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Errors of files begin with their paths already.
bool StartsWithName(std::string_view message, std::string_view name) {
  return message.starts_with(name) && message.substr(name.size()).starts_with(": ");
}

}  // namespace

absl::Status ErrnoStatus(int error_number, std::string_view what) {
  return absl::Status(CodeOfErrno(error_number),
                      fmt::format("{}: {}", what, std::strerror(error_number)));
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok() || StartsWithName(Message(status), prefix)) return status;
  absl::Status annotated(status.code(), fmt::format("{}: {}", prefix, Message(status)));
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    annotated.SetPayload(type_url, payload);
  });
  return annotated;
}

namespace {
constexpr char kRetryAfterPayload[] = "kiln/retry-after-ms";
}  // namespace

absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds delay) {
  status.SetPayload(kRetryAfterPayload, absl::Cord(std::to_string(delay.count())));
  return status;
}

std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::chrono::milliseconds(std::atoll(std::string(*payload).c_str()));
}

}  // namespace kiln
