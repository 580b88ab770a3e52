// Saves and restores device memory that launches both read and write.
#pragma once

#include <vector>

#include "client/launch/artifact/status.h"
#include "client/launch/driver/driver.h"
#include "client/launch/scratch.h"

namespace kiln::launch {

// The memory that is in a range of `reads` and in a range of `writes`, sorted, without overlaps.
// Ranges that only touch stay separate, so each lies in one allocation. Ignores empty ranges.
std::vector<MemoryRange> Overlaps(const std::vector<MemoryRange>& reads,
                                  const std::vector<MemoryRange>& writes);

// INVALID_ARGUMENT: not device memory, or not inside one allocation (pieces that are mapped one
// after the other are one). REQUIRES: the context of the memory is current.
Status CheckRange(Driver& driver, const MemoryRange& range);

// Copies of ranges, in device memory. Works in the order of one stream, in the current context. The
// destructor restores the ranges if they are dirty. Not thread-safe.
class SavedMemory {
 public:
  // `settings`, which have the allocator of the copies, must outlive it.
  SavedMemory(Driver& driver, const kiln_launch_settings& settings, Stream stream)
      : driver_(driver), stream_(stream), copies_(driver, settings, stream) {}
  ~SavedMemory();
  SavedMemory(const SavedMemory&) = delete;
  SavedMemory& operator=(const SavedMemory&) = delete;

  // Call it once. RESOURCE_EXHAUSTED: no memory for the copies.
  Status Save(const std::vector<MemoryRange>& ranges);
  // Call it before something writes to the ranges.
  void MarkDirty() { is_dirty_ = true; }
  // Does nothing if the ranges are not dirty.
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
