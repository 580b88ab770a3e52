// What a custom call says besides its buffers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace kiln::jax {

namespace ffi = ::xla::ffi;

// The attributes of `kiln_launch`. Views are into the call frame.
struct CallAttributes {
  std::string_view name;      // the kernel's, for messages
  std::string_view binary;    // cubin or HSACO
  std::string_view metadata;  // JSON, as kiln_launch_bytes::json
  // 'a' the next array; '1', '2', '4', '8' a scalar of so many bytes; 'd' a tensor descriptor over
  // the next array, with a '.' for each parameter behind it that it stands for
  std::string_view parameters;
  std::string_view scalars;      // one after the other
  std::string_view descriptors;  // as ReadTensors reads it; may be missing
  std::array<uint32_t, 3> grid;
  // '1' for each result that is set to zeroes first; '-' for one without a parameter, which shares
  // the buffer of an argument; '0' for the others.
  std::string_view zeroed;
  // Numbers of results; -1: none.
  int32_t global_scratch;
  int32_t profile_scratch;
};

// INVALID_ARGUMENT names the attribute that is missing, of another type or not a possible value.
// Unknown attributes are ignored: a later kiln.jax may say more.
ffi::ErrorOr<CallAttributes> ReadAttributes(const ffi::Dictionary& given);

}  // namespace kiln::jax
