#include "client/graph/emit/cuda.h"

#include <array>

#include "client/graph/emit/c_text.h"

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
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitCuda(const LoopProgram& program, const EmitOptions& options) {
  auto kernel = EmitC(program, kCuda, options);
  if (kernel.ok()) kernel->language = Language::kCuda;
  return kernel;
}

}  // namespace kiln::graph
