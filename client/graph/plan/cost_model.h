// Whether two operations had better be one kernel: bytes of traffic that fusing saves, against work
// that is done again. (Inductor scores fusion by the bytes of shared reads and writes, too.)
#pragma once

#include <cstdint>

namespace kiln::graph {

// Constants of the model, each with what it comes from.
struct CostModel {
  // An H200 moves 4.8 TB/s and computes 60 TFLOP/s in single precision, no tensor cores: about 12
  // operations in the time of a byte. Special functions take 4 times an addition (CUDA C++
  // Programming Guide, arithmetic throughput: 16 against 128 a clock, less what overlaps).
  double operations_per_byte = 12;
  double special_function_cost = 4;
  // A launch costs about 2.5 µs (docs/gpu-results.md, python-launch), in which 4.8 TB/s move 12 MB.
  double launch_bytes = 12e6;
  // A producer is never computed more often than this for each of its elements.
  double recompute_max = 64;
  // A chain under this many elements, or of one operation, is not worth a kernel of its own.
  int64_t worthwhile_elements = 1'000'000;
};

struct FusionFacts {
  double producer_elements = 0;       // at the typical sizes
  double bytes_per_element = 0;       // of the value between the two
  double operations_per_element = 0;  // to compute the producer's element, what it fuses included
  double reads_per_element = 1;       // how often the consumer reads each element
  bool has_other_readers = false;     // the value is written to memory anyway
};

// Bytes of traffic that fusing saves, less what the work done again costs. Negative: do not.
double FusionScore(const FusionFacts& facts, const CostModel& model);

}  // namespace kiln::graph
