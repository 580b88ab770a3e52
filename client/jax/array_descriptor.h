// A tensor descriptor over an array of a call, wherever XLA has put the array.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "xla/ffi/api/ffi.h"

namespace kiln::jax {

namespace ffi = ::xla::ffi;

// Thread-safe.
class ArrayDescriptor {
 public:
  using Made = std::shared_ptr<kiln_launch_descriptor>;

  // It begins at number `parameter` of the kernel's parameters and stands for `span` of them.
  // tensor: without an address.
  ArrayDescriptor(uint32_t parameter, uint32_t span, const kiln_launch_tensor& tensor)
      : parameter_(parameter), span_(span), tensor_(tensor) {}

  // Puts pointers to its arguments to `arguments`. They lead into what is returned. Makes the
  // descriptor once for each address: encoding one takes longer than a launch.
  ffi::ErrorOr<Made> At(uint64_t address, kiln_launch_kernel* kernel, const void** arguments);

 private:
  ffi::ErrorOr<Made> Find(uint64_t address, kiln_launch_kernel* kernel);

  const uint32_t parameter_;
  const uint32_t span_;
  const kiln_launch_tensor tensor_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Made> made_;  // by address
};

// Reads the attribute "descriptors": for each one rank, whether it fills with NaN, whether it
// rounds to tf32, shape and strides, all of them i64. INVALID_ARGUMENT.
ffi::ErrorOr<std::vector<kiln_launch_tensor>> ReadTensors(std::string_view attribute);

}  // namespace kiln::jax
