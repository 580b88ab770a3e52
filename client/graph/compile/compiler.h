// The compilers that kernels of a graph can be written for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::graph {

enum class Compiler : uint8_t { kPtx, kCuda, kTriton, kOpenCl };

// "ptx", "cuda", "triton", "opencl".
std::string_view NameOf(Compiler compiler);
std::optional<Compiler> ParseCompiler(std::string_view name);
// "ptx, cuda".
std::string NamesOf(const std::vector<Compiler>& compilers);

struct CompileConfig {
  std::string target;                    // "cuda:90", "hip:gfx942", "hip:gfx942:64", "spirv:1.2"
  std::vector<Compiler> available = {};  // empty: all that make code for the target
  std::optional<Compiler> forced = std::nullopt;
  bool fast_math = false;
};

// A target, taken apart.
struct CompileTarget {
  std::string backend;       // "cuda", "hip", "spirv"
  std::string architecture;  // "90", "gfx942", "1.2"
  int capability = 0;        // of CUDA: 90
  int warp_size = 32;        // of HIP: 64 for gfx9
};

// INVALID_ARGUMENT for what is no target; it lists the backends that exist.
[[nodiscard]] absl::StatusOr<CompileTarget> ParseTarget(std::string_view target);
// Those that make code for the target.
std::vector<Compiler> CompilersFor(const CompileTarget& target);

}  // namespace kiln::graph
