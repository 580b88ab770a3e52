#include "client/launch/tensor_descriptor.h"

#include <limits>

namespace kiln::launch {
namespace {

// Triton writes the number that the device's instructions have for a type; the driver wants its own
// enumeration's, which differs for three of them: 8 is its 10, 9 its 8, and 10 its 9.
int HostElementType(int64_t device_type) {
  const auto type = static_cast<int>(device_type);
  return type == 8 ? 10 : type == 9 || type == 10 ? type - 1 : type;
}
constexpr int kFloat32 = 7;
constexpr int kTf32 = 11;

Status CheckTensor(const kiln_launch_tensor& tensor) {
  if (tensor.rank == 0 || tensor.rank > kTensorRankMax) {
    return InvalidArgument("a tensor of {} dimensions: it has 1 to {}", tensor.rank,
                           kTensorRankMax);
  }
  if (const int64_t last = tensor.strides[tensor.rank - 1]; last != 1) {
    return InvalidArgument("the tensor's last stride is {}: a descriptor needs it to be 1", last);
  }
  for (size_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] <= 0 || tensor.shape[i] > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("the tensor has a length of {}, a descriptor takes 1 to 2^31-1",
                             tensor.shape[i]);
    }
  }
  return Status();
}

// Flags are i1 and stand between the strides and the second shape.
size_t CountFlags(const std::vector<Parameter>& parameters, size_t from) {
  size_t count = 0;
  while (from + count < parameters.size() &&
         (parameters[from + count].type == "i1" || parameters[from + count].type == "u1")) {
    ++count;
  }
  return count;
}

bool HaveBytes(const std::vector<Parameter>& parameters, size_t from, size_t count, size_t bytes) {
  if (from + count > parameters.size()) return false;
  for (size_t i = from; i < from + count; ++i) {
    if (BytesOfType(parameters[i].type) != bytes) return false;
  }
  return true;
}

// Which of the kernel's descriptors begins there.
size_t DescriptorNumber(const std::vector<Parameter>& parameters, size_t parameter) {
  size_t number = 0;
  for (size_t i = 0; i < parameter; ++i) number += IsTensorMap(parameters[i].type) ? 1 : 0;
  return number;
}

}  // namespace

StatusOr<std::unique_ptr<TensorDescriptor>> TensorDescriptor::Make(
    Driver& driver, const KernelMetadata& metadata, size_t parameter,
    const kiln_launch_tensor& tensor) {
  LAUNCH_RETURN_IF_ERROR(CheckTensor(tensor));
  const std::vector<Parameter>& parameters = metadata.parameters;
  const size_t rank = tensor.rank;
  const auto refuse = [&] {
    return InvalidArgument("no descriptor of {} dimensions begins at parameter {}", rank,
                           parameter);
  };
  if (parameter >= parameters.size()) return refuse();

  std::unique_ptr<TensorDescriptor> made(new TensorDescriptor);
  made->address_ = tensor.address;
  for (size_t i = 0; i < rank; ++i) {
    made->shape_[i] = tensor.shape[i];
    made->strides_[i] = tensor.strides[i];
    made->short_shape_[i] = static_cast<int32_t>(tensor.shape[i]);
  }
  made->flags_ = {tensor.fills_with_nan != 0, tensor.rounds_to_tf32 != 0};

  size_t next = parameter + 1;
  if (IsTensorMap(parameters[parameter].type)) {
    const size_t number = DescriptorNumber(parameters, parameter);
    if (number >= metadata.tensor_descriptors.size()) return refuse();
    const TensorDescriptorMetadata& descriptor = metadata.tensor_descriptors[number];
    LAUNCH_RETURN_IF_ERROR(made->EncodeMap(driver, descriptor, tensor));
    if (descriptor.fp4_padded && metadata.counts_padded_elements) {
      if (__builtin_mul_overflow(made->short_shape_[rank - 1], 2, &made->short_shape_[rank - 1])) {
        return InvalidArgument("the tensor's last length is {}, twice that is too long",
                               tensor.shape[rank - 1]);
      }
    }
    made->arguments_.push_back(made->map_.data());
  } else {
    if (!IsPointer(parameters[parameter].type) || !HaveBytes(parameters, next, 2 * rank, 8)) {
      return refuse();
    }
    made->arguments_.push_back(&made->address_);
    for (size_t i = 0; i < rank; ++i) made->arguments_.push_back(&made->shape_[i]);
    for (size_t i = 0; i < rank; ++i) made->arguments_.push_back(&made->strides_[i]);
    next += 2 * rank;
    const size_t flags = CountFlags(parameters, next);
    if (flags == 0 || flags > made->flags_.size()) return refuse();
    for (size_t i = 0; i < flags; ++i) made->arguments_.push_back(&made->flags_[i]);
    next += flags;
  }
  if (!HaveBytes(parameters, next, rank, 4) || !HaveBytes(parameters, next + rank, rank, 8)) {
    return refuse();
  }
  for (size_t i = 0; i < rank; ++i) made->arguments_.push_back(&made->short_shape_[i]);
  for (size_t i = 0; i < rank; ++i) made->arguments_.push_back(&made->strides_[i]);
  return made;
}

Status TensorDescriptor::EncodeMap(Driver& driver, const TensorDescriptorMetadata& metadata,
                                   const kiln_launch_tensor& tensor) {
  const size_t rank = tensor.rank;
  if (metadata.is_im2col) {
    return Unimplemented("the kernel's descriptor is an im2col one, which is not encoded here");
  }
  if (metadata.block_size.size() != rank) {
    return InvalidArgument("a tensor of {} dimensions, the kernel's descriptor has {}", rank,
                           metadata.block_size.size());
  }
  TensorMapRequest request;
  request.base = tensor.address;
  request.type = HostElementType(metadata.elem_type);
  if (tensor.rounds_to_tf32 != 0) {
    if (request.type != kFloat32 && request.type != kTf32) {
      return InvalidArgument("only float32 is rounded to tf32, the elements' type is number {}",
                             metadata.elem_type);
    }
    request.type = kTf32;
  }
  request.swizzle = static_cast<int>(metadata.swizzle);
  request.rank = static_cast<int>(rank);
  request.fills_with_nan = tensor.fills_with_nan != 0;
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = rank - 1 - i;
    request.shape[i] = static_cast<uint64_t>(tensor.shape[from]);
    request.block[i] = static_cast<uint32_t>(metadata.block_size[from]);
    if (i == 0) continue;
    const int64_t stride = tensor.strides[from];
    int64_t bytes = 0;
    if (stride < 0 || __builtin_mul_overflow(stride, metadata.elem_size, &bytes)) {
      return InvalidArgument("the tensor has a stride of {}: no descriptor has such", stride);
    }
    request.stride_bytes[i - 1] = static_cast<uint64_t>(bytes);
  }
  // Two elements of four bits each in a byte that counts as one.
  if (metadata.fp4_padded) request.shape[0] *= 2;
  return driver.EncodeTensorMap(request, map_.data());
}

}  // namespace kiln::launch
