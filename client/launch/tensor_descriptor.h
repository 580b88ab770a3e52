// Makes a kernel's arguments for a tensor descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/parameter_type.h"
#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"
#include "client/launch/kiln_launch.h"

namespace kiln::launch {

inline constexpr size_t kTensorRankMax = 5;

// The arguments of one descriptor. The kernel's parameters show which of two forms Triton uses: a
// CUtensorMap by value, shape and strides; or, for a target without TMA, base, shape, strides and
// flags, then shape and strides again.
//
// The pointers lead into this object, so it cannot be moved or copied. Immutable; thread-safe.
class TensorDescriptor {
 public:
  // For the descriptor that begins at `parameter`. The driver encodes the map; no context is
  // needed. INVALID_ARGUMENT: no descriptor begins there, or the tensor does not fit.
  // UNIMPLEMENTED: im2col.
  static StatusOr<std::unique_ptr<TensorDescriptor>> Make(Driver& driver,
                                                          const KernelMetadata& metadata,
                                                          size_t parameter,
                                                          const kiln_launch_tensor& tensor);
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;

  // A launch's arguments from `parameter` on.
  const std::vector<const void*>& arguments() const { return arguments_; }

 private:
  TensorDescriptor() = default;
  Status EncodeMap(Driver& driver, const TensorDescriptorMetadata& metadata,
                   const kiln_launch_tensor& tensor);

  alignas(64) std::array<char, kTensorMapBytes> map_{};
  Address address_ = 0;
  std::array<int64_t, kTensorRankMax> shape_{};
  std::array<int64_t, kTensorRankMax> strides_{};
  std::array<int32_t, kTensorRankMax> short_shape_{};
  std::array<uint8_t, 2> flags_{};
  std::vector<const void*> arguments_;
};

}  // namespace kiln::launch
