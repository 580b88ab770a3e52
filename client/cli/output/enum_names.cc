#include "client/cli/output/enum_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "client/cli/output/format.h"

namespace kiln::cli {
namespace {

template <typename Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array kKinds = {Word<v1::SourceKind>{"ttir", v1::SOURCE_KIND_TTIR},
                               Word<v1::SourceKind>{"ttgir", v1::SOURCE_KIND_TTGIR},
                               Word<v1::SourceKind>{"cuda", v1::SOURCE_KIND_CUDA_CXX},
                               Word<v1::SourceKind>{"ptx", v1::SOURCE_KIND_PTX}};
constexpr std::array kPolicies = {
    Word<v1::CachePolicy>{"use", v1::CACHE_POLICY_USE},
    Word<v1::CachePolicy>{"refresh", v1::CACHE_POLICY_REFRESH},
    Word<v1::CachePolicy>{"only-if-cached", v1::CACHE_POLICY_ONLY_IF_CACHED}};
constexpr std::array kPriorities = {Word<v1::Priority>{"waiting-rank", v1::PRIORITY_WAITING_RANK},
                                    Word<v1::Priority>{"autotune", v1::PRIORITY_AUTOTUNE},
                                    Word<v1::Priority>{"warm", v1::PRIORITY_WARM},
                                    Word<v1::Priority>{"background", v1::PRIORITY_BACKGROUND}};

template <typename Value, size_t N>
absl::StatusOr<Value> Find(const std::array<Word<Value>, N>& words, std::string_view word,
                           std::string_view what) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return InvalidArgument("'{}' is not a {}; there are {}", word, what, known);
}

}  // namespace

absl::StatusOr<v1::Target> ParseTarget(std::string_view text) {
  const absl::Status wrong = InvalidArgument(
      "'{}' is not a target: write cuda:90 or hip:gfx942 (backend:architecture)", text);
  const size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos) return wrong;
  v1::Target target;
  target.set_backend(std::string(text.substr(0, colon)));
  std::string_view architecture = text.substr(colon + 1);
  if (const size_t second = architecture.find(':'); second != std::string_view::npos) {
    const std::string_view warp = architecture.substr(second + 1);
    int32_t size = 0;
    const auto [end, error] = std::from_chars(warp.data(), warp.data() + warp.size(), size);
    if (error != std::errc() || end != warp.data() + warp.size() || size <= 0) return wrong;
    target.set_warp_size(size);
    architecture = architecture.substr(0, second);
  }
  if (architecture.empty()) return wrong;
  target.set_architecture(std::string(architecture));
  return target;
}

std::string TargetName(const v1::Target& target) {
  return fmt::format("{}:{}", target.backend(), target.architecture());
}

absl::StatusOr<v1::SourceKind> ParseSourceKind(std::string_view word) {
  return Find(kKinds, word, "kind of source");
}

std::string SourceKindName(v1::SourceKind kind) {
  for (const auto& [name, value] : kKinds) {
    if (value == kind) return std::string(name);
  }
  return fmt::format("kind {}", static_cast<int>(kind));
}

v1::SourceKind SourceKindOfFile(std::string_view path) {
  if (path.ends_with(".cu")) return v1::SOURCE_KIND_CUDA_CXX;
  if (path.ends_with(".ptx")) return v1::SOURCE_KIND_PTX;
  if (path.ends_with(".ttgir")) return v1::SOURCE_KIND_TTGIR;
  return v1::SOURCE_KIND_TTIR;
}

absl::StatusOr<v1::CachePolicy> ParseCachePolicy(std::string_view word) {
  return Find(kPolicies, word, "cache policy");
}

absl::StatusOr<v1::Priority> ParsePriority(std::string_view word) {
  return Find(kPriorities, word, "priority");
}

std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                           const std::vector<std::string>& names) {
  if (std::count(names.begin(), names.end(), name) < 2) return name;
  return fmt::format("{} {}", name, Hex(fingerprint).substr(0, kFingerprintDigitsShown));
}

std::string_view OutcomeName(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_HIT:
      return "hit";
    case v1::OUTCOME_JOINED:
      return "joined";
    case v1::OUTCOME_COMPILED:
      return "compiled";
    default:
      return "unknown";
  }
}

std::string_view TierName(v1::Tier tier) {
  switch (tier) {
    case v1::TIER_MEMORY:
      return "memory";
    case v1::TIER_DISK:
      return "disk";
    case v1::TIER_REMOTE:
      return "remote";
    default:
      return "";
  }
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace kiln::cli
