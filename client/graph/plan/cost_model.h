// Whether two operations had better be one kernel: bytes of traffic that fusing saves, against work
// that is done again. (Inductor scores fusion by the bytes of shared reads and writes, too.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln::graph {

// Constants of the model, each with the measurement that it comes from. Rows named graph-score-*
// are of `tests/gpu/run --part score`, as an H200 gave them (docs/gpu-results.md). A byte is the
// time in which a copy moves one, 0.24 ps there. No GPU of another kind was at hand: constants are
// ratios of two times of one GPU, and stand for all.
struct CostModel {
  // graph-score-operations-per-byte: 8.27 additions of f32, 8.19 to 8.31.
  double operations_per_byte = 8.3;
  // graph-score-special-function-cost: the median of 12 functions as they are compiled, in
  // additions, is 30. From 8 (rsqrt), 12 (exp), 19 (a quotient, sqrt), 27 (tanh), 32 (log,
  // sigmoid) and 41 (erf) to 90 (softplus) and 131 (pow).
  double special_function_cost = 30;
  // How many times as long a special function takes in a product that computes its factor by it:
  // few warps, which wait for each other. The pairs graph-score-tanh-* and -gelu-*: 17.5 bytes for
  // a function, the median of 14 from 6 to 156, where `special_function_cost` is 3.6.
  double tile_function_slowdown = 4.8;
  // What a computed factor costs that goes through registers into shared memory, for each tile that
  // it is in. The pairs graph-score-relu-right-* and -cast-right-*: 0.6 to 4.4 bytes, on average
  // 2.3. A Relu of a left factor in f16, or of an image, costs 0.1 at most.
  double staged_bytes = 2.2;
  // What a load moves whose neighbours are not its threads' neighbours: graph-score-jump-bytes-f32
  // and -f16, 29.1 and 27.9. (A sector has 32 bytes; caches keep a part of it.)
  double jump_bytes = 29;
  // A product's tile is in registers when what follows it loads its operands, all at once.
  // graph-score-operand-bytes-2 to -8: beside its own 2 bytes an operand of f16 costs 0.1 for each
  // of the first two, 0.9 for each of the next two, then 3.7 and 3.1. So it is 3.1 for each beyond
  // the third: 3, 9 and 16 bytes for 4, 6 and 8 operands, measured 2, 9 and 16. ptxas 12.8 spills
  // from the third on for sm_90, from the fourth on for sm_80. Elementwise chains of 26 operations
  // need 32 registers, softmaxes with 16 operands 38, and attention spills with 8.
  int tile_operands_max = 3;
  double spill_bytes = 3.1;  // of an element, for an operand
  // Shared memory has all that a product's factor is computed from, 4 stages of it: tiles of 128 x
  // 32 f16 and 64 x 32 are 48 KiB, and an SM of sm_86 has 99, so that one factor may be 2.5 times
  // as large. (Triton: 18 KiB for a product of 16 rows, 30 where its weights are cast from f32.)
  double factor_loads_max = 2.5;
  // Tiles of attention do not get smaller. Heads of 128 take 88 KiB of an SM of sm_120, which has
  // 99, and 152 KiB with keys and values that are computed from twice their bytes.
  double attention_loads_max = 1;
  // Rows and columns of a product's tile: between 16 of a small product and 256 (tile_sizes.cc). A
  // program computes its factors' elements once. With 128 no choice among the 28 pairs
  // graph-score-relu-*, -tanh-*, -gelu-* and -cast-* is slower than the other one by more than 3 %.
  double tile_width = 128;
  double tile_queries = 64;  // of an attention's tile: as section_types.cc has it for sm_90
  // Between what a small kernel takes in a captured graph, graph-score-launch-mb: 3.8 MB in 0.92
  // us, and what a launch by itself takes of the host's time, 2.9 us: 12 MB (docs/gpu-results.md,
  // launch). Whether an engine captures its launches is not known here.
  double launch_bytes = 8e6;
  // A producer of several operations is never computed more often than this for each of its
  // elements: `work` takes the arithmetic for all that it costs, and a small producer's launch is
  // worth a lot of that: 4096 sigmoids could be computed 500 times. Where nothing is as parallel as
  // on a GPU, on a CPU by OpenCL, a product that computes them for each column takes 0.87 of the
  // processor time that it takes with a kernel for them at 4 columns, 1.0 at 16, 1.2 at 64 and at
  // 256, 1.1 at 1024 (tests/benchmarks, graph-recompute). So 64 costs a fifth at most.
  double recompute_max = 64;
  // A chain under this many elements, or of one operation, is not worth a kernel of its own: a
  // million f32, read and written once, are 8 MB, which a launch is worth.
  int64_t worthwhile_elements = 1'000'000;
  // What a section may move so that a grid barrier in front of it is better than a launch of its
  // own, in a captured graph. It never is on an H100 (docs/gpu-results.md, graph-grid-barrier): a
  // section of 48 KB takes 3.7 us behind a barrier and 1.8 us by a launch.
  double barrier_bytes = 0;

  // A kernel of its own for a part of a symbol's range pays where the kernel moves `launch_bytes`
  // there at least: what it can save is less than it takes. Times of an H100 (docs/adr/0109):
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
  // Every read of a factor costs what computing it takes: a product's tiles have few threads, and a
  // kernel of its own computes it while it waits for memory.
  bool is_factor_of_tiles = false;
  bool is_staged = false;  // through shared memory, in each tile
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
