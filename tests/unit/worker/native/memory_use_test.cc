#include "daemon/worker/native/memory_use.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr uint64_t kBytes = 64 * limits::kMiB;
// What the C library and the test itself take and give back meanwhile, and what the kernel has not
// counted yet.
constexpr uint64_t kNoise = 8 * limits::kMiB;

// Holds memory, every page of it, and gives it back to the system at once.
class Held {
 public:
  explicit Held(size_t bytes)
      : bytes_(bytes),
        begin_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (begin_ == MAP_FAILED) std::abort();
    std::memset(begin_, 1, bytes);
  }
  ~Held() { ::munmap(begin_, bytes_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  const size_t bytes_;
  void* const begin_;
};

TEST(MemoryUseTest, ThePeakIsWhatWasHeldAtMost) {
  MemoryUse memory;
  memory.ResetPeak();
  const uint64_t before = memory.ResidentBytes();
  {
    const Held held(kBytes);
    EXPECT_GE(memory.ResidentBytes(), before + kBytes - kNoise);
  }
  EXPECT_LE(memory.ResidentBytes(), before + kNoise);
  EXPECT_GE(memory.PeakBytes(), kBytes - kNoise);
  EXPECT_LE(memory.PeakBytes(), kBytes + kNoise);
}

TEST(MemoryUseTest, AnEarlierPeakIsForgotten) {
  MemoryUse memory;
  { const Held held(kBytes); }
  memory.ResetPeak();
  EXPECT_LE(memory.PeakBytes(), kNoise);
}

TEST(MemoryUseTest, WhatItBeganWithIsNotCounted) {
  const Held held(kBytes);
  MemoryUse memory;
  memory.ResetPeak();
  EXPECT_LE(memory.PeakBytes(), kNoise);
}

}  // namespace
}  // namespace kiln
