// What every emitter makes of a LoopProgram: the source of one kernel, and how to launch it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/graph/program/size.h"

namespace kiln::graph {

enum class Language : uint8_t { kTritonIr, kCuda, kPtx, kOpenCl };

// ceil(extent / tile) blocks.
struct GridFactor {
  Size extent;
  int64_t tile = 1;
};

// Parameters of the kernel: the program's buffers as pointers, then its symbols as i64. A grid with
// no blocks must not be launched.
//
// A kernel of stages takes three more: a pointer to kBarrierBytes of memory, aligned to 8, that no
// other launch uses meanwhile, whatever they hold; a ticket (u32), any number, a random one where
// the memory serves other things between launches; and a stage (u32): its number, to compute it
// alone, or how many there are, to compute all. The latter is a cooperative launch.
struct EmittedKernel {
  Language language = Language::kCuda;
  std::string text;
  std::string entry;
  int threads = 128;             // of one block; Triton: num_warps times 32, or 64 for hip
  std::vector<GridFactor> grid;  // up to three, x first
  // Along x; any number of blocks does, and no grid has more than the largest of them. Empty: the
  // kernel has no stages.
  std::vector<GridFactor> stages = {};
};

inline constexpr uint64_t kBarrierBytes = 16;

// Buffers and symbols of a kernel. CUDA has room for 512 parameters of 8 bytes: three are for
// stages, or two are Triton's own.
inline constexpr size_t kParametersMax = 509;
inline constexpr size_t kStageParameters = 3;

struct EmitOptions {
  bool fast_math = false;        // approximations of the hardware where they are faster
  std::string backend = "cuda";  // or "hip": whose mathematical library Triton IR calls
  // "90", "gfx942": sizes of tiles, and types that products take. Empty: what suits all.
  std::string architecture = "";
};

}  // namespace kiln::graph
