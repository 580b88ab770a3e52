#include "client/graph/onnx/model_values.h"

#include <fmt/format.h>

#include <utility>

#include "absl/status/status.h"
#include "client/graph/onnx/limits.h"
#include "client/graph/onnx/onnx_tensor.h"
#include "client/graph/operators/segment_check.h"
#include "client/graph/segment/limits.h"

namespace kiln::graph {
namespace {

template <typename... Arguments>
absl::Status WrongValue(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace

ModelValues::ModelValues(const OnnxModel& model, const OnnxOptions& options,
                         const DataFolders& folders, Segment& segment)
    : model_(model), options_(options), folders_(folders), segment_(segment), dimensions_(options) {
  for (const auto* infos : {&model_.outputs, &model_.intermediates}) {
    for (const OnnxValueInfo& info : *infos) infos_.emplace(info.name, &info);
  }
}

std::optional<int> ModelValues::Find(std::string_view name) const {
  const auto number = numbers_.find(std::string(name));
  return number == numbers_.end() ? std::nullopt : std::optional(number->second);
}

absl::StatusOr<int> ModelValues::Add(Value value) {
  const auto number = static_cast<int>(segment_.values.size());
  if (!numbers_.emplace(value.name, number).second) {
    return WrongValue("value \"{:.200}\" is defined twice", value.name);
  }
  segment_.values.push_back(std::move(value));
  return number;
}

absl::Status ModelValues::AddConstant(const OnnxTensor& tensor, std::string_view name) {
  Value value{.name = std::string(name), .is_input = true, .is_constant = true};
  const auto type = DTypeOfOnnx(tensor.type);
  value.is_opaque = !type || tensor.dims.size() > kDimensionsMax;
  if (!value.is_opaque) {
    value.type = *type;
    OnnxTensor named = tensor;
    named.name = name;
    auto bytes = BytesOf(named, folders_);
    if (!bytes.ok()) return bytes.status();
    constant_bytes_ += bytes->size();
    if (constant_bytes_ > kOnnxConstantBytesMax) {
      return WrongValue("tensor \"{:.200}\": constants have over {} bytes", name,
                        kOnnxConstantBytesMax);
    }
    value.bytes = std::make_shared<const std::string>(*std::move(bytes));
    value.shape.assign(tensor.dims.begin(), tensor.dims.end());
  }
  return Add(std::move(value)).status();
}

absl::Status ModelValues::AddInitializers() {
  for (const OnnxTensor& tensor : model_.initializers) {
    if (auto status = AddConstant(tensor, tensor.name); !status.ok()) return status;
  }
  for (const std::string_view name : model_.sparse_initializers) {
    Value value{.name = std::string(name), .is_input = true};
    value.is_opaque = true;
    if (auto number = Add(std::move(value)); !number.ok()) return number.status();
  }
  return absl::OkStatus();
}

absl::Status ModelValues::AddInput(const OnnxValueInfo& input) {
  if (numbers_.contains(std::string(input.name))) return absl::OkStatus();  // with a default
  Value value{.name = std::string(input.name), .is_input = true};
  const auto type = DTypeOfOnnx(input.type);
  value.is_opaque = !type || !input.shape || input.shape->size() > kDimensionsMax;
  if (!value.is_opaque) {
    value.type = *type;
    auto shape = dimensions_.ShapeOfInput(input);
    if (!shape.ok()) return shape.status();
    segment_.symbols = dimensions_.symbols();
    value.shape = *std::move(shape);
    if (const auto bytes = options_.constants.find(value.name); bytes != options_.constants.end()) {
      value.is_constant = true;
      value.bytes = std::make_shared<const std::string>(bytes->second);
    }
    const absl::Status status = CheckValue(value, segment_.symbols);
    if (!status.ok()) return status;
  }
  return Add(std::move(value)).status();
}

// As the model describes it.
Value ModelValues::Described(std::string_view name) const {
  Value value{.name = std::string(name)};
  const auto info = infos_.find(name);
  const auto type = info == infos_.end() ? std::nullopt : DTypeOfOnnx(info->second->type);
  auto shape = info == infos_.end() ? std::nullopt : dimensions_.ShapeOf(*info->second);
  if (type && shape) {
    value.type = *type;
    value.shape = *std::move(shape);
  }
  value.is_opaque = !type || !shape || !CheckValue(value, segment_.symbols).ok();
  if (value.is_opaque) value.shape.clear();
  return value;
}

}  // namespace kiln::graph
