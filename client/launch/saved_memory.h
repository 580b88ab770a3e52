// Device memory that launches both read and write, kept as it was.
#pragma once

#include <vector>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"
#include "client/launch/scratch.h"

namespace kiln::launch {

// What lies in a range of `reads` and in one of `writes` too, sorted, without overlaps. Ranges that
// only touch stay two: each of the result lies in one allocation, where those given do. Empty
// ranges do not count.
std::vector<MemoryRange> Overlaps(const std::vector<MemoryRange>& reads,
                                  const std::vector<MemoryRange>& writes);

// INVALID_ARGUMENT: it is not device memory, or ends behind the allocation that it begins in, or
// behind the pieces of memory that are mapped one after the other.
// REQUIRES: the context of that memory is current.
Status CheckRange(Driver& driver, const MemoryRange& range);

// Copies of some ranges, in device memory. Everything happens in the order of one stream, in the
// current context. When this object goes, the ranges hold again what they held, if anything was
// done to them since the last Restore. Not thread-safe.
class SavedMemory {
 public:
  // `allocator` must outlive it.
  SavedMemory(Driver& driver, const ScratchAllocator& allocator, Stream stream)
      : driver_(driver), stream_(stream), copies_(driver, allocator, stream) {}
  ~SavedMemory();
  SavedMemory(const SavedMemory&) = delete;
  SavedMemory& operator=(const SavedMemory&) = delete;

  // Once. RESOURCE_EXHAUSTED: there is no memory for the copies.
  Status Save(const std::vector<MemoryRange>& ranges);
  // Something may write to the ranges from now on.
  void MarkDirty() { is_dirty_ = true; }
  // Does nothing where nothing was marked.
  Status Restore();

 private:
  struct Copy {
    MemoryRange original;
    Address copy;
  };

  Driver& driver_;
  const Stream stream_;
  Scratch copies_;
  std::vector<Copy> saved_;
  bool is_dirty_ = false;
};

}  // namespace kiln::launch
