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

// The contract's enumerators have words: PRIORITY_WAITING_RANK is "waiting-rank", and
// SOURCE_KIND_CUDA_CXX "cuda". "" for UNSPECIFIED; a number for what this version does not know.
[[nodiscard]] std::string WordOf(const google::protobuf::EnumDescriptor& type, int value);
template <typename Enum>
[[nodiscard]] std::string WordOf(Enum value) {
  return WordOf(*google::protobuf::GetEnumDescriptor<Enum>(), value);
}
// INVALID_ARGUMENT, naming the words that there are.
[[nodiscard]] absl::StatusOr<int> ParseWord(const google::protobuf::EnumDescriptor& type,
                                            std::string_view word);

// By the file's name: .cu, .ptx, otherwise Triton IR.
[[nodiscard]] v1::SourceKind SourceKindOfFile(std::string_view path);

// How many of a fingerprint's digits a person is shown.
inline constexpr size_t kFingerprintDigitsShown = 12;

// "nvrtc==12.9.86", followed by the beginning of the fingerprint if `names` has the name twice: two
// installations of one release may differ in a header.
[[nodiscard]] std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                                         const std::vector<std::string>& names);

}  // namespace kiln::cli
