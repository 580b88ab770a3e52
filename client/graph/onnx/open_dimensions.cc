#include "client/graph/onnx/open_dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "absl/status/status.h"
#include "client/graph/segment/limits.h"
#include "storage/base/nearest_word.h"

namespace kiln::graph {
namespace {

// Other characters than a symbol's name may have become '_'.
std::string SymbolName(std::string_view name, const std::vector<Symbol>& taken) {
  std::string text;
  for (const char c : name.substr(0, 200)) {
    text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) text = "_" + text;
  const std::string first = text;
  for (int i = 2; std::ranges::count(taken, text, &Symbol::name) > 0; ++i) {
    text = fmt::format("{}_{}", first, i);
  }
  return text;
}

}  // namespace

absl::StatusOr<Size> OpenDimensions::Open(const std::string& name) {
  if (const auto known = sizes_.find(name); known != sizes_.end()) return known->second;
  const auto given = std::ranges::find(options_.dimensions, name, &Symbol::name);
  Symbol symbol =
      given != options_.dimensions.end()
          ? *given
          : Symbol{name, options_.dimension_min, options_.dimension_max, options_.dimension_max, 1};
  if (symbol.min < 0 || symbol.min > symbol.typical || symbol.typical > symbol.max) {
    return absl::InvalidArgumentError(
        fmt::format("dimension \"{:.200}\": its range is not 0 <= min <= typical <= max", name));
  }
  if (symbol.min == symbol.max) return sizes_.emplace(name, symbol.min).first->second;
  if (symbols_.size() == kSymbolsMax) {
    return absl::InvalidArgumentError(
        fmt::format("it leaves over {} dimensions open", kSymbolsMax));
  }
  symbol.name = SymbolName(name, symbols_);
  const Size size = Size::Of(static_cast<int>(symbols_.size()));
  symbols_.push_back(std::move(symbol));
  return sizes_.emplace(name, size).first->second;
}

absl::StatusOr<std::vector<Size>> OpenDimensions::ShapeOfInput(const OnnxValueInfo& input) {
  std::vector<Size> shape;
  for (size_t i = 0; i < input.shape->size(); ++i) {
    const OnnxDimension& dimension = (*input.shape)[i];
    if (dimension.value && *dimension.value >= 0) {  // -1 is some exporters' word for open
      shape.emplace_back(*dimension.value);
      continue;
    }
    const auto size = Open(dimension.parameter.empty() ? fmt::format("{:.200}_{}", input.name, i)
                                                       : std::string(dimension.parameter));
    if (!size.ok()) return size.status();
    shape.push_back(*size);
  }
  return shape;
}

absl::Status OpenDimensions::CheckNames() const {
  std::vector<std::string> known;
  for (const auto& [name, size] : sizes_) known.push_back(name);
  for (const Symbol& given : options_.dimensions) {
    if (sizes_.contains(given.name)) continue;
    return absl::InvalidArgumentError(fmt::format("it leaves no dimension \"{:.200}\" open{}",
                                                  given.name, DidYouMean(given.name, known)));
  }
  return absl::OkStatus();
}

std::optional<std::vector<Size>> OpenDimensions::ShapeOf(const OnnxValueInfo& value) const {
  if (!value.shape) return std::nullopt;
  std::vector<Size> shape;
  for (const OnnxDimension& dimension : *value.shape) {
    const auto known = sizes_.find(dimension.parameter);
    if (dimension.value && *dimension.value >= 0) {
      shape.emplace_back(*dimension.value);
    } else if (known != sizes_.end()) {
      shape.push_back(known->second);
    } else {
      return std::nullopt;
    }
  }
  return shape;
}

}  // namespace kiln::graph
