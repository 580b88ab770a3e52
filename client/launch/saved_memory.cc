#include "client/launch/saved_memory.h"

#include <algorithm>

namespace kiln::launch {
namespace {

// Makes copies as fast as those of whole allocations.
constexpr uint64_t kCopyAlignment = 256;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

}  // namespace

std::vector<MemoryRange> Overlaps(const std::vector<MemoryRange>& reads,
                                  const std::vector<MemoryRange>& writes) {
  std::vector<MemoryRange> common;
  for (const MemoryRange& read : reads) {
    for (const MemoryRange& write : writes) {
      const Address begin = std::max(read.begin, write.begin);
      const Address end = std::min(read.end(), write.end());
      if (begin < end) common.push_back({begin, end - begin});
    }
  }
  std::sort(common.begin(), common.end());
  std::vector<MemoryRange> joined;
  for (const MemoryRange& range : common) {
    // Ranges that only touch may lie in two allocations; a copy must stay within one.
    if (joined.empty() || joined.back().end() <= range.begin) {
      joined.push_back(range);
    } else {
      const Address end = std::max(joined.back().end(), range.end());
      joined.back().bytes = end - joined.back().begin;
    }
  }
  return joined;
}

Status CheckRange(Driver& driver, const MemoryRange& range) {
  Address at = range.begin;
  for (uint64_t left = range.bytes; left > 0;) {
    LAUNCH_ASSIGN_OR_RETURN(const MemoryRange allocation, driver.AllocationAt(at));
    // The end of a range may wrap around; what is left of an allocation does not.
    const uint64_t there = allocation.end() - at;
    if (left <= there) break;
    left -= there;
    if (!driver.IsMappedPiece(at) || !driver.IsMappedPiece(allocation.end())) {
      return InvalidArgument("{} bytes at {:#x}: its allocation ends after {}", range.bytes,
                             range.begin, range.bytes - left);
    }
    at = allocation.end();
  }
  return Status();
}

SavedMemory::~SavedMemory() {
  // If the stream takes no copies, its context is broken, and its memory with it.
  static_cast<void>(Restore());
}

Status SavedMemory::Save(const std::vector<MemoryRange>& ranges) {
  uint64_t bytes = 0;
  for (const MemoryRange& range : ranges) bytes += RoundUp(range.bytes);
  LAUNCH_RETURN_IF_ERROR(copies_.Allocate(bytes, kCopyAlignment));
  Address next = copies_.address();
  for (const MemoryRange& range : ranges) {
    LAUNCH_RETURN_IF_ERROR(driver_.CopyAsync(next, range.begin, range.bytes, stream_));
    saved_.push_back({range, next});
    next += RoundUp(range.bytes);
  }
  return Status();
}

Status SavedMemory::Restore() {
  if (!is_dirty_) return Status();
  for (const auto& [original, copy] : saved_) {
    LAUNCH_RETURN_IF_ERROR(driver_.CopyAsync(original.begin, copy, original.bytes, stream_));
  }
  is_dirty_ = false;
  return Status();
}

}  // namespace kiln::launch
