// Segments as JSON: docs/graph.md has the format.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

inline constexpr int kSegmentVersion = 1;

// INVALID_ARGUMENT names the field ("values[3].shape[1]: ..."). What operations mean is left to
// Check.
[[nodiscard]] absl::StatusOr<Segment> ReadSegment(std::string_view json);
// The attributes of one operation, a JSON object.
[[nodiscard]] absl::StatusOr<Attributes> ReadAttributes(std::string_view json);
// A line for each value and operation. Reading it gives the same segment again.
std::string WriteSegment(const Segment& segment);

}  // namespace kiln::graph
