// What a pool of workers has done, and its present state.
#pragma once

#include <cstddef>
#include <string>

#include "storage/base/metrics.h"

namespace kiln {

struct PoolCounters {
  MetricLabels labels;  // of the pool's toolchain
  Counter started{"workers_started", "Worker processes started.", labels};
  Counter killed{"workers_killed",
                 "Workers killed at a deadline, for the disk, or because nobody waited any more.",
                 labels};
  Counter crashed{"workers_crashed", "Workers that died, or said something that no worker says.",
                  labels};
  Counter aborted{"workers_aborted",
                  "Workers ended by a compiler that gave up on a source in words (LLVM ERROR).",
                  labels};
  Counter idled{"workers_idled", "Workers ended because there was nothing to do.", labels};
  Counter zygotes_replaced{"zygotes_replaced",
                           "Processes of toolchains started afresh because of many crashes.",
                           labels};
  Counter compiles{"compiles", "Compiles that came to an answer, failures included.", labels};
  Counter cpu_micros{"compile_cpu_micros",
                     "CPU time of workers and their children, for finished compiles.", labels};
};

struct PoolStats {
  int workers = 0;  // alive
  int running = 0;  // compiling
  size_t queued = 0;
  std::string zygote;  // "ready", "starting", or what is wrong with it
};

}  // namespace kiln
