// Memory that a kernel needs for one launch.
#pragma once

#include <cstdint>

#include "client/launch/driver/driver.h"

namespace kiln::launch {

// The caller's functions for scratch, such as a framework's caching allocator. Null: the driver's
// stream-ordered memory. Called on the launching thread; `allocate` returns 0 when it has no
// memory.
struct ScratchAllocator {
  Address (*allocate)(void* user, uint64_t bytes, uint64_t alignment, Stream stream) = nullptr;
  void (*release)(void* user, Address address, Stream stream) = nullptr;
  void* user = nullptr;
};
inline constexpr ScratchAllocator kDriversMemory = {};

// One piece of memory. The destructor gives it back in stream order: the launch that uses it must
// be on the stream by then. Not thread-safe.
class Scratch {
 public:
  Scratch(Driver& driver, const ScratchAllocator& allocator, Stream stream)
      : driver_(driver), allocator_(allocator), stream_(stream) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // RESOURCE_EXHAUSTED. Does nothing for 0 bytes.
  Status Allocate(uint64_t bytes, uint64_t alignment);
  // 0: no memory; kernels get a null pointer.
  Address address() const { return address_; }

 private:
  Driver& driver_;
  const ScratchAllocator& allocator_;
  const Stream stream_;
  Address allocated_ = 0;
  Address address_ = 0;
};

}  // namespace kiln::launch
