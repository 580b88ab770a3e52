#include "client/graph/segment/shape.h"

namespace kiln::graph {

Size ElementsOf(const std::vector<Size>& shape) {
  Size elements = 1;
  for (const Size& extent : shape) elements *= extent;
  return elements;
}

std::vector<Size> RowMajorStrides(const std::vector<Size>& shape) {
  std::vector<Size> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<Size> StridesOf(const Value& value) {
  return value.strides ? *value.strides : RowMajorStrides(value.shape);
}

std::string ShapeText(const std::vector<Size>& shape, const std::vector<Symbol>& symbols) {
  std::string text = "[";
  for (const Size& extent : shape) {
    if (text.size() > 1) text += ", ";
    text += extent.ToString(symbols);
  }
  return text + "]";
}

}  // namespace kiln::graph
