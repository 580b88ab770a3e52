// Memory that a kernel needs for one launch.
#pragma once

#include <cstdint>

#include "client/launch/driver/driver.h"
#include "client/launch/kiln_launch.h"

namespace kiln::launch {

// One piece of memory, of the settings' allocator. The destructor gives it back in stream order:
// the launch that uses it must be on the stream by then. Not thread-safe.
class Scratch {
 public:
  // `settings` must outlive it.
  Scratch(Driver& driver, const kiln_launch_settings& settings, Stream stream)
      : driver_(driver), settings_(settings), stream_(stream) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // RESOURCE_EXHAUSTED. Does nothing for 0 bytes.
  Status Allocate(uint64_t bytes, uint64_t alignment);
  // 0: no memory; kernels get a null pointer.
  Address address() const { return address_; }

 private:
  Driver& driver_;
  const kiln_launch_settings& settings_;
  const Stream stream_;
  Address allocated_ = 0;
  Address address_ = 0;
};

}  // namespace kiln::launch
