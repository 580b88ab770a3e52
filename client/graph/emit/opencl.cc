#include "client/graph/emit/opencl.h"

#include <array>

#include "client/graph/emit/c_text.h"

namespace kiln::graph {
namespace {

constexpr std::string_view kOpenClTypes = R"(typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
)";

// Devices without doubles refuse the pragma, and those without 64-bit atomics the others.
constexpr std::string_view kOpenClDoubles = R"(#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
)";
constexpr std::string_view kOpenClAtomics64 =
    R"(#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
)";

constexpr std::array<std::string_view, 2> kOpenClF16Functions = {R"(
FUNCTION f32 kiln_f16_to_f32(u16 x) { return vload_half(0, (const __private half*)&x); }
)",
                                                                 R"(
FUNCTION u16 kiln_f32_to_f16(f32 x) {
  u16 y;
  vstore_half_rte(x, 0, (__private half*)&y);
  return y;
}
)"};

constexpr std::array<std::pair<Opcode, std::string_view>, 10> kOpenClFastFunctions = {{
    {Opcode::kSquareRoot, "native_sqrt"},
    {Opcode::kReciprocalSquareRoot, "native_rsqrt"},
    {Opcode::kExponential, "native_exp"},
    {Opcode::kExponential2, "native_exp2"},
    {Opcode::kLogarithm, "native_log"},
    {Opcode::kLogarithm2, "native_log2"},
    {Opcode::kSine, "native_sin"},
    {Opcode::kCosine, "native_cos"},
    {Opcode::kTangent, "native_tan"},
    {Opcode::kDivide, "native_divide"},
}};

constexpr CDialect kOpenCl = {
    .prelude = kOpenClTypes,
    .kernel = "__attribute__((reqd_work_group_size({}, 1, 1))) __kernel void",
    .function = "static inline",
    .global = "__global ",
    .restrict = "restrict",
    .block = "get_group_id(0)",
    .thread = "get_local_id(0)",
    .shared = "__local",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE)",
    .lanes = 1,
    .exchanged = "",
    .f32_suffix = "",
    .bits_of_f32 = "as_uint",
    .f32_of_bits = "as_float",
    .bits_of_f64 = "as_ulong",
    .f64_of_bits = "as_double",
    .f16_functions = kOpenClF16Functions,
    .atomics_32 = {"atomic_add", "atomic_min", "atomic_max", "atomic_cmpxchg"},
    .atomics_64 = {"atom_add", "atom_min", "atom_max", "atom_cmpxchg"},
    .adds_floats = false,
    .fast_functions = kOpenClFastFunctions,
};

bool UsesDoubles(const LoopProgram& program) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.type == DType::kF64) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<EmittedKernel> EmitOpenCl(const LoopProgram& program, const EmitOptions& options) {
  auto kernel = EmitC(program, kOpenCl, options);
  if (!kernel.ok()) return kernel;
  kernel->language = Language::kOpenCl;
  if (kernel->text.find("atom_") != std::string::npos) kernel->text.insert(0, kOpenClAtomics64);
  if (UsesDoubles(program)) kernel->text.insert(0, kOpenClDoubles);
  return kernel;
}

}  // namespace kiln::graph
