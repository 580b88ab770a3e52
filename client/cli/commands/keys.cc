#include "client/cli/commands/keys.h"

#include <algorithm>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"

namespace kiln::cli {
namespace {

constexpr size_t kKeyDigits = 2 * Digest::kSizeBytes;
constexpr size_t kDigitsMin = 4;
constexpr size_t kCandidatesMax = 8;

absl::StatusOr<Digest> FindByName(AdminClient& admin, const std::string& name,
                                  const CallOptions& call) {
  admin::v1::ListArtifactsRequest request;
  request.set_kernel(name);
  std::vector<admin::v1::ArtifactSummary> found;
  do {
    KILN_ASSIGN_OR_RETURN(const auto page, admin.ListArtifacts(call, request));
    for (const auto& artifact : page.artifacts()) {
      if (artifact.name() == name) found.push_back(artifact);
    }
    request.set_after(page.next());
  } while (!request.after().empty() && found.size() <= kCandidatesMax);
  if (found.empty()) {
    return NotFound("no stored artifact has a key that begins so, or a kernel of that name");
  }
  if (found.size() == 1) return Digest::FromBytes(found.front().key());
  std::string list;
  for (size_t i = 0; i < std::min(found.size(), kCandidatesMax); ++i) {
    const auto& one = found[i];
    list += fmt::format("{}{} ({}{}{})", list.empty() ? "" : ", ",
                        Hex(one.key()).substr(0, kFingerprintDigitsShown), TargetName(one.target()),
                        one.options().empty() ? "" : " ", one.options());
  }
  return InvalidArgument("several kernels have that name; name one by its key: {}{}", list,
                         found.size() > kCandidatesMax ? ", … ('kiln ls --kernel' has all)" : "");
}

}  // namespace

bool IsKeyPrefix(std::string_view text) {
  return text.size() <= kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::Status CheckKey(std::string_view text) {
  if (text.empty()) return InvalidArgument("'' is neither a key nor a kernel's name");
  return absl::OkStatus();
}

absl::StatusOr<Digest> ResolveKey(AdminClient& admin, const std::string& text,
                                  const CallOptions& call) {
  if (IsKeyPrefix(text) && text.size() == kKeyDigits) return Digest::FromHex(text);
  if (IsKeyPrefix(text) && text.size() >= kDigitsMin) {
    admin::v1::InspectArtifactRequest request;
    request.set_key_prefix(text);
    const auto found = admin.InspectArtifact(call, request);
    if (found.ok()) return Digest::FromBytes(found->summary().key());
    if (!absl::IsNotFound(found.status())) return found.status();
  }
  return FindByName(admin, text, call);
}

}  // namespace kiln::cli
