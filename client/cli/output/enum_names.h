// The words of the command line and of request files, and their values on the wire.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/v1/kernel.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// "cuda:90", "hip:gfx942", with a warp size "hip:gfx942:64". INVALID_ARGUMENT. The daemon checks
// whether the target exists.
[[nodiscard]] absl::StatusOr<v1::Target> ParseTarget(std::string_view text);
[[nodiscard]] std::string TargetName(const v1::Target& target);

// "ttir", "cuda", "ptx". INVALID_ARGUMENT, naming them.
[[nodiscard]] absl::StatusOr<v1::SourceKind> ParseSourceKind(std::string_view word);
[[nodiscard]] std::string SourceKindName(v1::SourceKind kind);
// By the file's name: .cu, .ptx, otherwise Triton IR.
[[nodiscard]] v1::SourceKind SourceKindOfFile(std::string_view path);

// "use", "refresh", "only-if-cached".
[[nodiscard]] absl::StatusOr<v1::CachePolicy> ParseCachePolicy(std::string_view word);
// "waiting-rank", "autotune", "warm", "background".
[[nodiscard]] absl::StatusOr<v1::Priority> ParsePriority(std::string_view word);

// How many of a fingerprint's digits a person is shown.
inline constexpr size_t kFingerprintDigitsShown = 12;

// "nvrtc==12.9.86", followed by the beginning of the fingerprint if `names` has the name twice: two
// installations of one release may differ in a header.
[[nodiscard]] std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                                         const std::vector<std::string>& names);

// "hit", "joined", "compiled".
[[nodiscard]] std::string_view OutcomeName(v1::Outcome outcome);
// "memory", "disk", "remote"; "": not a hit.
[[nodiscard]] std::string_view TierName(v1::Tier tier);
// "INVALID_ARGUMENT".
[[nodiscard]] std::string CodeName(absl::StatusCode code);

}  // namespace kiln::cli
