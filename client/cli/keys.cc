#include "client/cli/keys.h"

namespace kiln::cli {

absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                  const CallOptions& call) {
  if (text.size() == 2 * Digest::kSizeBytes) return Digest::FromHex(text);
  KILN_ASSIGN_OR_RETURN(const auto found, admin.InspectArtifact(text, call));
  return Digest::FromBytes(found.summary().key());
}

}  // namespace kiln::cli
