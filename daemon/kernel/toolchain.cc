#include "daemon/kernel/toolchain.h"

#include <algorithm>

namespace kiln {

std::string_view OptionTypeName(OptionType type) {
  static constexpr std::string_view kNames[] = {"any",    "bool",   "integer",
                                                "number", "string", "tuple"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<OptionType> ParseOptionType(std::string_view name) {
  for (const OptionType type : {OptionType::kAny, OptionType::kBool, OptionType::kInteger,
                                OptionType::kNumber, OptionType::kString, OptionType::kTuple}) {
    if (name == OptionTypeName(type)) return type;
  }
  return std::nullopt;
}

std::vector<std::string> BackendDescription::StagesOf(SourceKind kind, const Options& given) const {
  for (const auto& [flag, instead] : stages_with) {
    const auto found = given.find(flag);
    if (found != given.end() && found->second == OptionValue{true}) return instead;
  }
  auto first = stages.begin();
  if (kind == SourceKind::kTtgir) {
    first = std::find(stages.begin(), stages.end(), SourceKindName(kind));
    if (first != stages.end()) ++first;
  }
  return {first, stages.end()};
}

const BackendDescription* Toolchain::FindBackend(std::string_view backend) const {
  for (const BackendDescription& description : backends) {
    if (description.backend == backend) return &description;
  }
  return nullptr;
}

}  // namespace kiln
