// Memory that a kernel needs for one launch.
#pragma once

#include <cstdint>

#include "client/launch/driver/driver.h"

namespace kiln::launch {

// Where scratch comes from: a caller's own functions, such as a framework's caching allocator, or
// none, which is the driver's stream-ordered memory. Both are called on the launching thread;
// `allocate` returns 0 where it has none.
struct ScratchAllocator {
  Address (*allocate)(void* user, uint64_t bytes, uint64_t alignment, Stream stream) = nullptr;
  void (*release)(void* user, Address address, Stream stream) = nullptr;
  void* user = nullptr;
};
inline constexpr ScratchAllocator kDriversMemory = {};

// One piece, given back in stream order when this object goes: the launch that uses it has to be on
// the stream by then. Not thread-safe.
class Scratch {
 public:
  Scratch(Driver& driver, const ScratchAllocator& allocator, Stream stream)
      : driver_(driver), allocator_(allocator), stream_(stream) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // RESOURCE_EXHAUSTED. Does nothing for 0 bytes.
  Status Allocate(uint64_t bytes, uint64_t alignment);
  // 0 where there is none: kernels take a null pointer then.
  Address address() const { return address_; }

 private:
  Driver& driver_;
  const ScratchAllocator& allocator_;
  const Stream stream_;
  Address allocated_ = 0;
  Address address_ = 0;
};

}  // namespace kiln::launch
