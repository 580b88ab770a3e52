// Status values with formatted messages, and the two macros that pass them on.
//
// Debian builds Abseil for C++14, so absl::string_view is not std::string_view and absl::StrCat
// does not take one; the project formats with fmt instead.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {

template <typename... Args>
[[nodiscard]] absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format,
                                      Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

#define KILN_STATUS_FUNCTION(Name, Code)                                                           \
  template <typename... Args>                                                                      \
  [[nodiscard]] absl::Status Name(fmt::format_string<Args...> format, Args&&... args) {            \
    return absl::Status(absl::StatusCode::Code, fmt::format(format, std::forward<Args>(args)...)); \
  }

// The caller's request is wrong, whatever state the daemon is in.
KILN_STATUS_FUNCTION(InvalidArgument, kInvalidArgument)
// The thing does not exist. Never means "could not look".
KILN_STATUS_FUNCTION(NotFound, kNotFound)
KILN_STATUS_FUNCTION(AlreadyExists, kAlreadyExists)
// The state of the system does not allow this. Retrying does not help until someone acts.
KILN_STATUS_FUNCTION(FailedPrecondition, kFailedPrecondition)
// A limit was reached.
KILN_STATUS_FUNCTION(ResourceExhausted, kResourceExhausted)
KILN_STATUS_FUNCTION(DeadlineExceeded, kDeadlineExceeded)
KILN_STATUS_FUNCTION(Cancelled, kCancelled)
KILN_STATUS_FUNCTION(PermissionDenied, kPermissionDenied)
// Try again later.
KILN_STATUS_FUNCTION(Unavailable, kUnavailable)
// Bytes do not match their digest or checksum.
KILN_STATUS_FUNCTION(DataLoss, kDataLoss)
KILN_STATUS_FUNCTION(Internal, kInternal)

#undef KILN_STATUS_FUNCTION

// A status for the value of errno, with `what` in front: "open /x: No such file or directory".
[[nodiscard]] absl::Status ErrnoStatus(int error_number, std::string_view what);

// "prefix: message" with the same code and payloads. A message that begins so stays as it is.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, std::string_view prefix);

// `status` with a hint for the client: try again after `delay`. An OK status stays as it is.
[[nodiscard]] absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds delay);
[[nodiscard]] std::optional<std::chrono::milliseconds> RetryAfter(const absl::Status& status);

// The message as a std::string_view.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace kiln

#define KILN_CONCAT_INNER(a, b) a##b
#define KILN_CONCAT(a, b) KILN_CONCAT_INNER(a, b)

#define KILN_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                  \
    if (absl::Status kiln_status = (expression); !kiln_status.ok()) return kiln_status; \
  } while (false)

#define KILN_ASSIGN_OR_RETURN(lhs, expression) \
  KILN_ASSIGN_OR_RETURN_INNER(KILN_CONCAT(kiln_status_or_, __LINE__), lhs, expression)
#define KILN_ASSIGN_OR_RETURN_INNER(variable, lhs, expression) \
  auto variable = (expression);                                \
  if (!variable.ok()) return std::move(variable).status();     \
  lhs = std::move(variable).value()
