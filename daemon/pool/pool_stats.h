// What a pool of workers has done, and how it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln {

// Since the pool began; they only grow, so those of several pools can be added up.
struct PoolCounters {
  uint64_t started = 0;
  uint64_t killed = 0;            // by a deadline, for the disk, or because nobody waited any more
  uint64_t crashed = 0;           // died, or said something that no worker says
  uint64_t aborted = 0;           // died because the compiler gave up on the source in words
  uint64_t idled = 0;             // ended because there was nothing to do
  uint64_t zygotes_replaced = 0;  // because of crashes
  uint64_t compiles = 0;          // that came to an answer
  uint64_t compile_cpu_micros = 0;

  PoolCounters& operator+=(const PoolCounters& other);
};

struct PoolStats : PoolCounters {
  int slots = 0;
  int workers = 0;  // alive
  int running = 0;  // compiling
  size_t queued = 0;
  std::string zygote;  // "ready", "starting", or what is wrong with it
};

}  // namespace kiln
