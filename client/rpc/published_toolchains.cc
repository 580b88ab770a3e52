#include "client/rpc/published_toolchains.h"

#include <algorithm>
#include <utility>

#include "daemon/messages/translate.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

template <typename Range, typename Value>
bool Has(const Range& range, const Value& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

// Name and version, or the beginning of a fingerprint.
bool IsNamed(const Toolchain& toolchain, std::string_view selector) {
  const bool may_be_digits = selector.size() >= limits::kFingerprintDigitsMin;
  return toolchain.Name() == selector ||
         (may_be_digits && toolchain.fingerprint.Hex().starts_with(selector));
}

bool Fits(const Toolchain& toolchain, SourceKind kind, const Target& target) {
  const BackendDescription* backend = toolchain.FindBackend(target.backend);
  return Has(toolchain.kinds, kind) && backend != nullptr &&
         Has(backend->architectures, target.architecture);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PublishedToolchains>> PublishedToolchains::Parse(
    std::string_view bytes) {
  v1::ListToolchainsResponse listed;
  if (!listed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("not a kiln.v1.ListToolchainsResponse");
  }
  auto parsed = std::make_shared<PublishedToolchains>();
  for (const v1::Toolchain& toolchain : listed.toolchains()) {
    KILN_ASSIGN_OR_RETURN(Toolchain converted, FromProto(toolchain));
    parsed->toolchains_.push_back(std::make_shared<const Toolchain>(std::move(converted)));
  }
  parsed->has_default_ = listed.toolchains_size() > 0 && listed.toolchains(0).is_default();
  return parsed;
}

absl::StatusOr<std::shared_ptr<const Toolchain>> PublishedToolchains::Find(
    std::string_view selector, SourceKind kind, const Target& target) const {
  const bool is_default = selector.empty() && has_default_;
  const std::string meant = is_default ? toolchains_.front()->Name() : std::string(selector);
  std::shared_ptr<const Toolchain> found;
  int named = 0;
  bool has_kind = false;
  for (const auto& each : toolchains_) {
    if (!IsNamed(*each, meant)) continue;
    ++named;
    has_kind = has_kind || Has(each->kinds, kind);
    if (Fits(*each, kind, target)) found = each;
  }
  // The default holds for the kinds that it compiles; for others, the first that fits is taken.
  for (const auto& each : toolchains_) {
    if (is_default && !has_kind && found == nullptr && Fits(*each, kind, target)) found = each;
  }
  if (named == 1 && found != nullptr) return found;
  return FailedPrecondition("only the daemon can tell which toolchain \"{}\" is", selector);
}

}  // namespace kiln
