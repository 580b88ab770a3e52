// Limits of ONNX files. What a segment may hold is in segment/limits.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::graph {

inline constexpr uint64_t kOnnxModelBytesMax = uint64_t{1} << 31;     // protobuf's own limit
inline constexpr uint64_t kOnnxTensorBytesMax = uint64_t{1} << 34;    // of one constant
inline constexpr uint64_t kOnnxConstantBytesMax = uint64_t{1} << 37;  // of all constants
inline constexpr int kOnnxSubgraphDepthMax = 32;
inline constexpr size_t kOnnxDimensionsMax = 64;         // of a shape in the file
inline constexpr size_t kOnnxAttributesMax = 1'000'000;  // of all nodes

}  // namespace kiln::graph
