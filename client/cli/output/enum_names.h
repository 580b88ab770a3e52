// The words that stand on the command line and in request files, and their values on the wire.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/v1/kernel.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// "cuda:90", "hip:gfx942", with a warp size "hip:gfx942:64". Whether there is such a target the
// daemon knows. INVALID_ARGUMENT.
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

// "nvrtc==12.9.86"; where `names` has it more than once, as of two installations of one release
// that differ in a header, with the beginning of its fingerprint, as `kiln toolchain list` shows
// it.
[[nodiscard]] std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                                         const std::vector<std::string>& names);

// "hit", "joined", "compiled".
[[nodiscard]] std::string_view OutcomeName(v1::Outcome outcome);
// "memory", "disk", "remote"; "" where it was no hit.
[[nodiscard]] std::string_view TierName(v1::Tier tier);
// "INVALID_ARGUMENT".
[[nodiscard]] std::string CodeName(absl::StatusCode code);

}  // namespace kiln::cli
