// Reads keys of the command line.
#pragma once

#include <string>
#include <string_view>

#include "client/rpc/admin_client.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// INVALID_ARGUMENT: `text` is not a key, nor its first `digits_min` or more digits.
[[nodiscard]] inline absl::Status CheckKey(std::string_view text, size_t digits_min = 4) {
  constexpr size_t kDigitsMax = 2 * Digest::kSizeBytes;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return InvalidArgument("'{}' is not a key: a key has the digits 0 to 9 and a to f", text);
  }
  if (text.size() < digits_min) {
    return InvalidArgument("'{}' is too short for a key: give at least its first {} digits", text,
                           digits_min);
  }
  if (text.size() > kDigitsMax) {
    return InvalidArgument("'{}' is too long for a key: one has {} digits", text, kDigitsMax);
  }
  return absl::OkStatus();
}

// 64 hex digits are the key itself; fewer, at least 4, are looked up on the administration socket.
// INVALID_ARGUMENT: no key, or several begin so. NOT_FOUND.
[[nodiscard]] inline absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                                       const CallOptions& call) {
  if (text.size() == 2 * Digest::kSizeBytes) return Digest::FromHex(text);
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(text);
  KILN_ASSIGN_OR_RETURN(const auto found, admin.InspectArtifact(call, request));
  return Digest::FromBytes(found.summary().key());
}

}  // namespace kiln::cli
