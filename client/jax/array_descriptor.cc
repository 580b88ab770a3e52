#include "client/jax/array_descriptor.h"

#include <cstring>
#include <iterator>
#include <string>

#include "client/jax/shared_kernel.h"

namespace kiln::jax {
namespace {

// XLA moves an array between few addresses. What moves it for ever starts anew.
constexpr size_t kAddressesMax = 256;

}  // namespace

ffi::ErrorOr<ArrayDescriptor::Made> ArrayDescriptor::At(uint64_t address,
                                                        kiln_launch_kernel* kernel,
                                                        const void** arguments) {
  ffi::ErrorOr<Made> made = Find(address, kernel);
  if (made.has_error()) return made;
  uint32_t count = 0;
  if (const auto code = kiln_launch_descriptor_get_arguments(made->get(), arguments, span_, &count);
      code != 0) {
    return ffi::Unexpected(LaunchError(code));
  }
  if (count == span_) return made;
  return ffi::Unexpected(ffi::Error::InvalidArgument(
      "the descriptor at parameter " + std::to_string(parameter_) + " stands for " +
      std::to_string(count) + " parameters, attribute \"parameters\" says " +
      std::to_string(span_)));
}

ffi::ErrorOr<ArrayDescriptor::Made> ArrayDescriptor::Find(uint64_t address,
                                                          kiln_launch_kernel* kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto found = made_.find(address); found != made_.end()) return found->second;
  kiln_launch_tensor tensor = tensor_;
  tensor.address = address;
  kiln_launch_descriptor* opened = nullptr;
  if (const auto code = kiln_launch_descriptor_open(kernel, parameter_, &tensor, &opened);
      code != 0) {
    return ffi::Unexpected(LaunchError(code));
  }
  if (made_.size() >= kAddressesMax) made_.clear();
  return made_.emplace(address, Made(opened, kiln_launch_descriptor_close)).first->second;
}

ffi::ErrorOr<std::vector<kiln_launch_tensor>> ReadTensors(std::string_view attribute) {
  std::vector<kiln_launch_tensor> tensors;
  const auto wrong = ffi::Unexpected(
      ffi::Error::InvalidArgument("attribute \"descriptors\" is no list of descriptors"));
  std::vector<int64_t> words(attribute.size() / sizeof(int64_t));
  if (words.size() * sizeof(int64_t) != attribute.size()) return wrong;
  if (!words.empty()) std::memcpy(words.data(), attribute.data(), attribute.size());
  for (size_t next = 0; next < words.size();) {
    kiln_launch_tensor tensor{};
    const int64_t rank = words[next];
    if (rank < 1 || rank > static_cast<int64_t>(std::size(tensor.shape))) return wrong;
    const auto count = static_cast<size_t>(rank);
    if (words.size() - next < 3 + 2 * count) return wrong;
    tensor.size = sizeof tensor;
    tensor.rank = static_cast<uint32_t>(rank);
    tensor.fills_with_nan = words[next + 1] != 0;
    tensor.rounds_to_tf32 = words[next + 2] != 0;
    next += 3;
    for (size_t i = 0; i < count; ++i) {
      tensor.shape[i] = words[next + i];
      tensor.strides[i] = words[next + count + i];
    }
    next += 2 * count;
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace kiln::jax
