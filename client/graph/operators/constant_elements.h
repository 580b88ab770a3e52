// The elements of a constant, while a kernel is planned: shapes, bounds, steps.
#pragma once

#include <optional>
#include <vector>

#include "client/graph/segment/segment.h"

namespace kiln::graph {

// Nothing for what is no constant, has no bytes, or has a narrow type. 64-bit integers beyond 2^53
// are rounded.
std::optional<std::vector<double>> ConstantElements(const Value& value);

// The constants whose elements this thread asks for while it lives. One at a time.
class AskedConstants {
 public:
  AskedConstants();
  ~AskedConstants();
  AskedConstants(const AskedConstants&) = delete;
  AskedConstants& operator=(const AskedConstants&) = delete;

  const std::vector<const Value*>& values() const { return values_; }

 private:
  std::vector<const Value*> values_;
};

}  // namespace kiln::graph
