#include "client/cli/output/enum_names.h"

#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <charconv>

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

v1::SourceKind SourceKindOfFile(std::string_view path) {
  if (path.ends_with(".cu")) return v1::SOURCE_KIND_CUDA_CXX;
  if (path.ends_with(".ptx")) return v1::SOURCE_KIND_PTX;
  if (path.ends_with(".ttgir")) return v1::SOURCE_KIND_TTGIR;
  return v1::SOURCE_KIND_TTIR;
}

std::string ToolchainLabel(const std::string& name, std::string_view fingerprint,
                           const std::vector<std::string>& names) {
  if (std::count(names.begin(), names.end(), name) < 2) return name;
  return fmt::format("{} {}", name, Hex(fingerprint).substr(0, kFingerprintDigitsShown));
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace kiln::cli
