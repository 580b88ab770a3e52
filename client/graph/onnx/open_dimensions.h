// Dimensions that a model leaves open become symbols.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/onnx/onnx_model.h"
#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/program/size.h"

namespace kiln::graph {

class OpenDimensions {
 public:
  // The options must outlive it.
  explicit OpenDimensions(const OnnxOptions& options) : options_(options) {}

  // The shape of an input. INVALID_ARGUMENT: there are too many symbols, or a range is empty.
  [[nodiscard]] absl::StatusOr<std::vector<Size>> ShapeOfInput(const OnnxValueInfo& input);
  // Nothing where it has dimensions that no input has.
  std::optional<std::vector<Size>> ShapeOf(const OnnxValueInfo& value) const;
  // INVALID_ARGUMENT: the options name a dimension that no input leaves open.
  [[nodiscard]] absl::Status CheckNames() const;
  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  [[nodiscard]] absl::StatusOr<Size> Open(const std::string& name);

  const OnnxOptions& options_;
  std::vector<Symbol> symbols_;
  std::map<std::string, Size, std::less<>> sizes_;  // by the model's name
};

}  // namespace kiln::graph
