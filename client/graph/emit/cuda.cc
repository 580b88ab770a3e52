#include "client/graph/emit/cuda.h"

#include <array>
#include <utility>

#include "client/graph/emit/c_text.h"
#include "client/graph/emit/stages.h"

namespace kiln::graph {
namespace {

constexpr std::string_view kCudaPrelude = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
)";

// Tests compile the text for the host too, and define the functions of the other branch.
constexpr std::array<std::string_view, 2> kCudaF16Functions = {R"(
FUNCTION f32 kiln_f16_to_f32(u16 x) {
  f32 y;
#ifdef __CUDA_ARCH__
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
#else
  y = kiln_f32_of_f16_bits(x);
#endif
  return y;
}
)",
                                                               R"(
FUNCTION u16 kiln_f32_to_f16(f32 x) {
  u16 y;
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
#else
  y = kiln_f16_bits_of_f32(x);
#endif
  return y;
}
)"};

// state[0] is the mark of this launch once block 0 has set state[1] to 0; after the first barrier
// it is 0. So memory need not be set before a launch, nor before a replay of a graph. state[1]
// counts the blocks that have come to barriers. The first thread of each block speaks for the
// block: what the others have written is released with its addition, what other blocks have written
// is acquired with its load.
constexpr std::string_view kCudaGridBarrier = R"(
FUNCTION u64 kiln_load_acquire(const u64* p) {
  u64 x;
#ifdef __CUDA_ARCH__
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
#else
  x = kiln_host_load(p);
#endif
  return x;
}

FUNCTION void kiln_store_release(u64* p, u64 x) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(p), "l"(x) : "memory");
#else
  *p = x;
#endif
}

FUNCTION void kiln_add_release(u64* p, u64 x) {
#ifdef __CUDA_ARCH__
  asm volatile("red.release.gpu.add.u64 [%0], %1;" : : "l"(p), "l"(x) : "memory");
#else
  *p += x;
#endif
}

FUNCTION u64 kiln_mark_of(u32 ticket) { return 0x4b696c6e00000000ull | ticket; }

FUNCTION void kiln_grid_open(u64* state, u32 ticket) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  state[1] = 0;
  kiln_store_release(state, kiln_mark_of(ticket));
}

FUNCTION void kiln_grid_barrier(u64* state, u32 ticket, u64 number) {
  __syncthreads();
  if (threadIdx.x == 0) {
    while (number == 1 && kiln_load_acquire(state) != kiln_mark_of(ticket)) {}
    kiln_add_release(state + 1, 1);
    while (kiln_load_acquire(state + 1) < number * gridDim.x) {}
    if (number == 1 && blockIdx.x == 0) state[0] = 0;
  }
  __syncthreads();
}
)";

constexpr std::array<std::pair<Opcode, std::string_view>, 8> kCudaFastFunctions = {{
    {Opcode::kExponential, "__expf"},
    {Opcode::kLogarithm, "__logf"},
    {Opcode::kLogarithm2, "__log2f"},
    {Opcode::kSine, "__sinf"},
    {Opcode::kCosine, "__cosf"},
    {Opcode::kTangent, "__tanf"},
    {Opcode::kPower, "__powf"},
    {Opcode::kDivide, "__fdividef"},
}};

constexpr CAtomics kCudaAtomics = {"atomicAdd", "atomicMin", "atomicMax", "atomicCAS"};

constexpr CDialect kCuda = {
    .prelude = kCudaPrelude,
    .kernel = R"(extern "C" __global__ void __launch_bounds__({}))",
    .function = "static __device__ __forceinline__",
    .global = "",
    .restrict = "__restrict__",
    .block = "blockIdx.x",
    .thread = "threadIdx.x",
    .shared = "__shared__",
    .barrier = "__syncthreads()",
    .lanes = 32,
    .exchanged = "__shfl_xor_sync(0xffffffffu, {}, step)",
    .f32_suffix = "f",
    .bits_of_f32 = "__float_as_uint",
    .f32_of_bits = "__uint_as_float",
    .bits_of_f64 = "__double_as_longlong",
    .f64_of_bits = "__longlong_as_double",
    .f16_functions = kCudaF16Functions,
    .atomics_32 = kCudaAtomics,
    .atomics_64 = kCudaAtomics,
    .adds_floats = true,
    .fast_functions = kCudaFastFunctions,
    .blocks = "gridDim.x",
    .grid_barrier = kCudaGridBarrier,
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitCuda(const LoopProgram& program, const EmitOptions& options) {
  auto kernel = EmitC(program, kCuda, options);
  if (kernel.ok()) kernel->language = Language::kCuda;
  return kernel;
}

absl::StatusOr<EmittedKernel> EmitCudaStages(std::string name,
                                             const std::vector<LoopProgram>& programs,
                                             const EmitOptions& options) {
  auto kernel = EmitStages(std::move(name), programs, kCuda, options);
  if (kernel.ok()) kernel->language = Language::kCuda;
  return kernel;
}

}  // namespace kiln::graph
