// Tensors of ONNX files as the bytes that a segment's constants have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/graph/onnx/external_data.h"
#include "client/graph/onnx/onnx_model.h"
#include "client/graph/program/dtype.h"

namespace kiln::graph {

// Kiln's name of a TensorProto.DataType. Nothing for strings, complex numbers and formats that Kiln
// does not have.
std::optional<DType> DTypeOfOnnx(int64_t type);

// Little endian, row-major, two 4-bit elements a byte. External data lies in `folders`.
// INVALID_ARGUMENT names the tensor: wrong lengths, a file that is truncated or lies elsewhere, too
// many bytes.
// REQUIRES: DTypeOfOnnx has its type.
[[nodiscard]] absl::StatusOr<std::string> BytesOf(const OnnxTensor& tensor,
                                                  const DataFolders& folders);

}  // namespace kiln::graph
