#include "client/cli/output/enum_names.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>

#include "client/cli/output/format.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kUnspecified = "UNSPECIFIED";

// Enumerators begin with the name of their type, and so does the first: "PRIORITY_UNSPECIFIED".
std::string EnumeratorWord(const google::protobuf::EnumValueDescriptor& value) {
  if (value.full_name() == "kiln.v1.SOURCE_KIND_CUDA_CXX") return "cuda";
  std::string word =
      value.name().substr(value.type()->value(0)->name().size() - kUnspecified.size());
  if (word == kUnspecified) return "";
  for (char& c : word) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
  return word;
}

}  // namespace

std::string WordOf(const google::protobuf::EnumDescriptor& type, int value) {
  const auto* const known = type.FindValueByNumber(value);
  return known == nullptr ? std::to_string(value) : EnumeratorWord(*known);
}

absl::StatusOr<int> ParseWord(const google::protobuf::EnumDescriptor& type, std::string_view word) {
  std::vector<std::string> words;
  for (int i = 1; i < type.value_count(); ++i) {
    words.push_back(EnumeratorWord(*type.value(i)));
    if (words.back() == word) return type.value(i)->number();
  }
  return InvalidArgument("'{}' is none of {}", word, fmt::join(words, ", "));
}

absl::StatusOr<v1::Target> ParseTarget(std::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ':');
  const bool has_warp_size = parts.size() == 3;
  int32_t warp_size = 0;
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() || parts[1].empty() ||
      (has_warp_size && (!absl::SimpleAtoi(parts[2], &warp_size) || warp_size <= 0))) {
    return InvalidArgument(
        "'{}' is not a target: write cuda:90, hip:gfx942 or spirv:1.2 (backend:architecture)",
        text);
  }
  v1::Target target;
  target.set_backend(parts[0]);
  target.set_architecture(parts[1]);
  if (has_warp_size) target.set_warp_size(warp_size);
  return target;
}

std::string TargetName(const v1::Target& target) {
  return fmt::format("{}:{}", target.backend(), target.architecture());
}

v1::SourceKind SourceKindOfFile(std::string_view path) {
  if (path.ends_with(".cu")) return v1::SOURCE_KIND_CUDA_CXX;
  if (path.ends_with(".cl")) return v1::SOURCE_KIND_OPENCL;
  if (path.ends_with(".ptx")) return v1::SOURCE_KIND_PTX;
  if (path.ends_with(".ttgir")) return v1::SOURCE_KIND_TTGIR;
  return v1::SOURCE_KIND_TTIR;
}

std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                           const std::vector<std::string>& names) {
  if (std::count(names.begin(), names.end(), name) < 2) return name;
  return fmt::format("{} {}", name, Hex(fingerprint).substr(0, kFingerprintDigitsShown));
}

}  // namespace kiln::cli
