// ONNX models as segments.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

struct OnnxOptions {
  // Ranges of dimensions, by the model's name for them ("batch"), or by "input_0" for dimension 0
  // of an input where the model has no name. Where min is max, the dimension is fixed.
  std::vector<Symbol> dimensions = {};
  // Those of the other dimensions that the model leaves open.
  int64_t dimension_min = 1;
  int64_t dimension_max = 4096;
  // Bytes of inputs that never change: they become constants.
  std::map<std::string, std::string> constants = {};
};

// A segment that Check takes. What Kiln cannot plan is kept by the engine, with the reason in
// Operation::kept_because: operators of other domains, subgraphs, types and shapes that are not
// known. An output of the model that is also an input of it, or a constant, is no output of the
// segment.
// INVALID_ARGUMENT: the file cannot be read, is no ONNX model or an invalid one; for constants with
// the tensor's name. External data has to lie in the model's folder, or in that of the
// file which the path is a link to.
[[nodiscard]] absl::StatusOr<Segment> ReadOnnx(const std::string& path, const OnnxOptions& options);
// As ReadOnnx, of a model in memory; external data lies in `folder`.
[[nodiscard]] absl::StatusOr<Segment> ReadOnnxBytes(std::string_view bytes,
                                                    const std::string& folder,
                                                    const OnnxOptions& options);

}  // namespace kiln::graph
