// The types of sections, in one table: what each may fuse, and the tiles, warps and stages of its
// kernels on each target. The planner and the emitters read it. PlanConfig::off switches any type
// off.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln::graph {

enum class SectionType : uint8_t {
  kElementwise,  // one element of each input for each element
  kView,         // index arithmetic alone
  kConstant,     // no input
  kGather,       // elements by indices that are data; scatters, too
  kReduction,
  kNormalization,  // rows: softmax, layer norm
  kMatmul,
  kConvolution,
  kAttention,
};

// How Triton IR cuts what a section computes. A program that is not recognised as a product or as
// attention (docs/adr/0102) has blocks. Other languages have threads: kThreads, for every type.
enum class Tiling : uint8_t {
  kBlocks,     // kBlocks
  kProduct,    // AllProductTiles
  kAttention,  // AllAttentionTiles
};

struct SectionTypeFacts {
  SectionType type;
  std::string_view name;  // "matmul": in PlanConfig and Explain
  // Whether it computes an element without a loop. Such an operation can be computed where its
  // element is needed, as often as that is.
  bool is_pointwise;
  // Computes the elements of its inputs itself. All read views of memory.
  bool takes_prologue;
  bool takes_epilogue;  // has elementwise operations done to its elements before they are stored
  Tiling tiling;        // sections with blocks can share a kernel with grid barriers
};

std::span<const SectionTypeFacts> AllSectionTypes();
const SectionTypeFacts& FactsOf(SectionType type);
std::optional<SectionType> ParseSectionType(std::string_view name);
std::string SectionTypeNames();  // "elementwise, view, ..."

// Targets that have tiles of their own, to be added up.
enum Generation : uint8_t {
  kSm80 = 1,  // before sm_90, or not known
  kSm90 = 2,
  kSm100 = 4,  // up to sm_119
  kSm120 = 8,  // and later
  kAmd = 16,
  kEveryGeneration = 31,
};
// Takes what EmitOptions has: "cuda" and "90a", "hip" and "gfx942".
Generation GenerationOf(std::string_view backend, std::string_view architecture);
// "90a" is 90; 0 where it is not given, or no number.
int ArchitectureNumber(std::string_view architecture);

// Factors of f32 that are not rounded have no matrix unit.
enum class Factors : uint8_t { kAny, kWithUnit, kWithoutUnit };

inline constexpr int64_t kSmallestTile = 16;

// A row of the tiles of products: convolutions are products, too.
struct ProductTiles {
  uint8_t generations;
  Factors factors;
  int64_t rows;
  int64_t columns;
  int64_t depth_bytes;  // of a factor
  int warps;
  int stages;  // tiles of factors that are under way at once

  bool AreFor(Generation generation, bool has_unit) const;
};
// From large to small. The first that fits and leaves a program for each core is taken.
std::span<const ProductTiles> AllProductTiles();
inline constexpr int64_t kProgramsWanted = 100;  // cores of a large GPU, about
inline constexpr int64_t kProductGroupRows = 8;  // tiles of rows whose programs run together

inline constexpr int64_t kWidestHead = 256;

struct AttentionTilesMax {
  uint8_t generations;
  Factors factors;
  int64_t head_max;
  int64_t queries;
  int64_t keys;
  int stages;
  // A turn's values are weighted and added up by themselves before the sum takes them. On sm_90
  // alone: while a matrix unit still adds to a sum that the next turn multiplies, ptxas has all of
  // its products wait for each other (1.1 times as long on an H100). The tile takes registers.
  bool adds_apart;

  bool AreFor(Generation generation, bool has_unit) const;
};
// The first row whose heads are wide enough is taken.
std::span<const AttentionTilesMax> AllAttentionTiles();
inline constexpr int64_t kQueriesPerWarp = 16;  // so that rows are reduced within a warp
inline constexpr int kAttentionWarpsMax = 8;

// Blocks of positions, on every target; Triton chooses the stages of their loops.
struct BlockFacts {
  int64_t elements_max = 4096;      // of one row: of a longer one loops take...
  int64_t loop_columns_max = 1024;  // ...so many elements at a time
  int64_t elements = 1024;          // rows are added up to that
  int64_t neighbours = 32;          // of each row or column of a block that is wide in memory
  int64_t elements_per_warp = 32 * 8;
  int warps_max = 8;
  int64_t programs_wanted = 256;  // about two for each core of a large GPU
};
inline constexpr BlockFacts kBlocks;

// Threads of CUDA C++, OpenCL C and PTX, on every target.
struct ThreadFacts {
  int threads = 128;
  int elements_max = 8;              // of a thread
  int ptx_elements_max = 4;          // of one instruction
  int64_t wide_bytes = 16;           // of neighbours, in one load
  int64_t shared_loop_min = 32;      // positions; a warp. Shorter loops are a thread's
  int64_t shared_threads_max = 256;  // what every OpenCL device of today takes
  int64_t loop_positions_per_thread = 8;
  // Outer positions that keep a large GPU busy with a thread for each.
  int64_t many_positions = 16'384;
};
inline constexpr ThreadFacts kThreads;

}  // namespace kiln::graph
