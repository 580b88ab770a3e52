// The status of the launch library. Codes are those of absl::Status and gRPC; kiln_launch.h says
// when each is given. Does not use Abseil:
// the processes that load this library may have an Abseil of their own, and Debian's cannot be
// linked into a shared object without 25 other libraries.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kiln::launch {

enum class Code : int32_t {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

// OK is one null pointer. Thread-safe as a value is.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, int driver_result = 0)
      : content_(
            std::make_shared<const Content>(Content{code, std::move(message), driver_result})) {}

  bool ok() const { return content_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : content_->code; }
  std::string_view message() const { return ok() ? std::string_view() : content_->message; }
  // The GPU driver's result; 0: the driver did not fail.
  int driver_result() const { return ok() ? 0 : content_->driver_result; }

  // "prefix: message". OK stays OK.
  Status Annotate(std::string_view prefix) const {
    if (ok()) return *this;
    return Status(code(), fmt::format("{}: {}", prefix, message()), driver_result());
  }

 private:
  struct Content {
    Code code;
    std::string message;
    int driver_result;
  };
  std::shared_ptr<const Content> content_;
};

template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT: as absl::StatusOr
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // As Status::Annotate.
  StatusOr Annotate(std::string_view prefix) && {
    return ok() ? std::move(*this) : StatusOr(status_.Annotate(prefix));
  }

 private:
  std::optional<T> value_;
  Status status_;
};

#define KILN_LAUNCH_STATUS_FUNCTION(Name)                                           \
  template <typename... Args>                                                       \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {                 \
    return Status(Code::k##Name, fmt::format(format, std::forward<Args>(args)...)); \
  }

KILN_LAUNCH_STATUS_FUNCTION(Cancelled)
KILN_LAUNCH_STATUS_FUNCTION(InvalidArgument)
KILN_LAUNCH_STATUS_FUNCTION(NotFound)
KILN_LAUNCH_STATUS_FUNCTION(PermissionDenied)
KILN_LAUNCH_STATUS_FUNCTION(ResourceExhausted)
KILN_LAUNCH_STATUS_FUNCTION(FailedPrecondition)
KILN_LAUNCH_STATUS_FUNCTION(Unimplemented)
KILN_LAUNCH_STATUS_FUNCTION(Internal)
KILN_LAUNCH_STATUS_FUNCTION(Unavailable)
KILN_LAUNCH_STATUS_FUNCTION(DataLoss)

#undef KILN_LAUNCH_STATUS_FUNCTION

}  // namespace kiln::launch

#define LAUNCH_CONCAT_INNER(a, b) a##b
#define LAUNCH_CONCAT(a, b) LAUNCH_CONCAT_INNER(a, b)

#define LAUNCH_RETURN_IF_ERROR(expression)                                          \
  do {                                                                              \
    if (::kiln::launch::Status launch_status = (expression); !launch_status.ok()) { \
      return launch_status;                                                         \
    }                                                                               \
  } while (false)

#define LAUNCH_ASSIGN_OR_RETURN(lhs, expression) \
  LAUNCH_ASSIGN_OR_RETURN_INNER(LAUNCH_CONCAT(launch_status_or_, __LINE__), lhs, expression)
#define LAUNCH_ASSIGN_OR_RETURN_INNER(variable, lhs, expression) \
  auto variable = (expression);                                  \
  if (!variable.ok()) return variable.status();                  \
  lhs = *std::move(variable)
