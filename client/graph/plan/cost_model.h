// Whether two operations had better be one kernel: bytes of traffic that fusing saves, against work
// that is done again. (Inductor scores fusion by the bytes of shared reads and writes, too.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln::graph {

// Constants of the model, each with what it comes from.
struct CostModel {
  // An H200 moves 4.8 TB/s and computes 60 TFLOP/s in single precision, no tensor cores: about 12
  // operations in the time of a byte. Special functions take 4 times an addition (CUDA C++
  // Programming Guide, arithmetic throughput: 16 against 128 a clock, less what overlaps).
  double operations_per_byte = 12;
  double special_function_cost = 4;
  // What a load moves whose neighbours are not its threads' neighbours: a sector of 32 bytes (CUDA
  // C++ Best Practices Guide, coalesced access).
  double jump_bytes = 32;
  // A product's tile is in registers when what follows it loads its operands, all at once. By ptxas
  // 12.8, f16, tiles of 128 x 256 by 8 warps for sm_90 and of 128 x 128 by 4 warps for sm_80: 186
  // and 224 registers without operands of the tile's size, 254 and 255 with two. Each one more is
  // 160 bytes stored and 180 loaded by a thread that has 128 elements. Elementwise chains of 26
  // operations need 32 registers, softmaxes with 16 operands 38, and attention spills with 8.
  int tile_operands_max = 2;
  double spill_bytes = 2.7;  // of an element, for an operand
  // Shared memory has all that a product's factor is computed from, 4 stages of it: tiles of 128 x
  // 32 f16 and 64 x 32 are 48 KiB, and an SM of sm_86 has 99, so that one factor may be 2.5 times
  // as large. (Triton: 18 KiB for a product of 16 rows, 30 where its weights are cast from f32.)
  double factor_loads_max = 2.5;
  // Tiles of attention do not get smaller. Heads of 128 take 88 KiB of an SM of sm_120, which has
  // 99, and 152 KiB with keys and values that are computed from twice their bytes.
  double attention_loads_max = 1;
  // Rows and columns of a product's tile: between 16 of a small product and 256 (tile_sizes.cc). A
  // program computes its factors' elements once.
  double tile_width = 64;
  // In 2.5 µs 4.8 TB/s move 12 MB. A launch by itself takes 2.9 µs of the host's time, and 1.8 µs
  // of an H100's in a captured graph (docs/gpu-results.md, launch and graph-grid-barrier).
  double launch_bytes = 12e6;
  // A producer of several operations is never computed more often than this for each of its
  // elements: `work` takes the arithmetic for all that it costs, and a small producer's launch is
  // worth a lot of that. 4096 sigmoids may be computed 4000 times in the 2.5 us of a launch on an
  // H200, and Triton computes a factor once for a tile of 64 to 256 columns. Where nothing is that
  // parallel, on a CPU by OpenCL, a product that computes them for each column takes 0.87 of the
  // processor time that it takes with a kernel for them at 4 columns, 1.0 at 16, 1.2 at 64 and at
  // 256, 1.1 at 1024 (tests/benchmarks, graph-recompute). So 64 costs a fifth at most.
  double recompute_max = 64;
  // A chain under this many elements, or of one operation, is not worth a kernel of its own: a
  // million f32, read and written once, are 8 MB, less than a launch is worth.
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
  // For each element of the producer, where the consumer reads it out of its order in memory: the
  // producer's loads, less the one of the value between the two that would jump, too.
  int loads_that_jump = 0;
  int tile_operands = 0;  // of the size of a product's tile, behind it
};

// In bytes of traffic.
struct FusionScore {
  double saved = 0;
  double work = 0;       // what computing the producer again costs
  double grid = 0;       // what loads in the order of the consumer's grid cost
  double registers = 0;  // what operands cost that registers do not hold

  double Sum() const { return saved - work - grid - registers; }  // negative: do not fuse
};

FusionScore ScoreOf(const FusionFacts& facts, const CostModel& model);
// ", work -1.5 MB, grid -20.0 MB": what is not 0.
std::string CostsOf(const FusionScore& score);
// Bytes of traffic worth what one kernel with grid barriers saves against a launch for each of
// `sections`, which move `bytes` in all. Negative: launch each.
double BarrierScore(size_t sections, double bytes, const CostModel& model);

}  // namespace kiln::graph
