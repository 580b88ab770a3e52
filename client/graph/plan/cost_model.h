// Whether two operations had better be one kernel: bytes of traffic that fusing saves, against work
// that is done again. (Inductor scores fusion by the bytes of shared reads and writes, too.)
#pragma once

#include <cstddef>
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
  // What a section may move so that a grid barrier in front of it is better than a launch of its
  // own, in a captured graph. It never is on an H100 (docs/gpu-results.md, graph-grid-barrier): a
  // section of 48 KB takes 3.7 us behind a barrier and 1.8 us by a launch.
  double barrier_bytes = 0;

  // A kernel of its own for a part of a symbol's range pays where the kernel moves `launch_bytes`
  // there at least: what it can save is less than it takes. Times of an H100:
  // Rows at multiples of 8 elements are loaded as vectors. A product of 4096^3 in f16 with an open
  // depth takes 167 us then, else 480; a softmax of 4096 rows of 4096 f16 34 us, else 80. Multiples
  // of 16 are no faster.
  int64_t split_multiple = 8;
  // With tiles for 256 rows, 1 to 256 rows by 4096 x 4096 in f16 take 17 to 20 us. With tiles for
  // 4096 rows they take 41 us, for 512 rows 27 to 32; tiles for 16 rows are no faster. So a
  // product has a kernel up to this size where the typical one is so many times as large.
  int64_t split_small = 256;
  int64_t split_small_ratio = 2;
  size_t splits_max = 2;  // of one kernel: each is a compile more
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
// Bytes of traffic worth what one kernel with grid barriers saves against a launch for each of
// `sections`, which move `bytes` in all. Negative: launch each.
double BarrierScore(size_t sections, double bytes, const CostModel& model);

}  // namespace kiln::graph
