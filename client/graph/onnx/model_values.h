// The values of a segment, as a model describes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/onnx/external_data.h"
#include "client/graph/onnx/onnx_model.h"
#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/onnx/open_dimensions.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// Adds values, and symbols of open dimensions, to `segment`. All arguments must outlive it. Errors
// are INVALID_ARGUMENT and name the value.
class ModelValues {
 public:
  ModelValues(const OnnxModel& model, const OnnxOptions& options, const DataFolders& folders,
              Segment& segment);

  [[nodiscard]] absl::Status AddInitializers();
  // Initializers come first.
  [[nodiscard]] absl::Status AddInput(const OnnxValueInfo& input);
  // After all inputs. INVALID_ARGUMENT: the options name a dimension that none leaves open.
  [[nodiscard]] absl::Status CheckDimensions() const { return dimensions_.CheckNames(); }
  [[nodiscard]] absl::Status AddConstant(const OnnxTensor& tensor, std::string_view name);
  // The number of the new value. Names are unique.
  [[nodiscard]] absl::StatusOr<int> Add(Value value);
  std::optional<int> Find(std::string_view name) const;
  // With the type and the shape that the model tells; opaque where it does not.
  Value Described(std::string_view name) const;

 private:
  const OnnxModel& model_;
  const OnnxOptions& options_;
  const DataFolders& folders_;
  Segment& segment_;
  OpenDimensions dimensions_;
  std::unordered_map<std::string_view, const OnnxValueInfo*> infos_;
  std::unordered_map<std::string, int> numbers_;
  uint64_t constant_bytes_ = 0;
};

}  // namespace kiln::graph
