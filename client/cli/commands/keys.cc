#include "client/cli/commands/keys.h"

namespace kiln::cli {

absl::Status CheckKey(std::string_view text, size_t digits_min) {
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

absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                  const CallOptions& call) {
  if (text.size() == 2 * Digest::kSizeBytes) return Digest::FromHex(text);
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(text);
  KILN_ASSIGN_OR_RETURN(const auto found, admin.InspectArtifact(call, request));
  return Digest::FromBytes(found.summary().key());
}

}  // namespace kiln::cli
