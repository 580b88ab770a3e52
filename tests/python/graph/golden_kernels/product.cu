typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
static __device__ __forceinline__ u16 kiln_f32_to_f16(f32 x) {
  u16 y;
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
#else
  y = kiln_f16_bits_of_f32(x);
#endif
  return y;
}
static __device__ __forceinline__ f32 kiln_f16_to_f32(u16 x) {
  f32 y;
#ifdef __CUDA_ARCH__
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
#else
  y = kiln_f32_of_f16_bits(x);
#endif
  return y;
}

extern "C" __global__ void __launch_bounds__(128) segment0_kernel0(const u16* __restrict__ b_v0, const u16* __restrict__ b_v1, u16* b_v3, i64 n_rows) {
  const u32 position = (u32)blockIdx.x * 128 + (u32)threadIdx.x;
  if (position >= (u32)((i64)32 * n_rows)) return;
  const i64 a0 = (i64)(position / (u32)(i64)32);
  const i64 v2 = (i64)((u64)a0 * (u64)(i64)32);
  const i64 a1 = (i64)(position % (u32)(i64)32);
  const i64 v4 = (i64)((u64)v2 + (u64)a1);
  f32 v16 = 0.0f;
  const i64 v6 = (i64)((u64)a0 * (u64)(i64)64);
  for (i64 a2 = 0; a2 < (i64)64; ++a2) {
    const i64 v8 = (i64)((u64)v6 + (u64)a2);
    const u16 v9 = b_v0[v8];
    const f32 v10 = kiln_f16_to_f32(v9);
    const i64 v11 = (i64)((u64)a2 * (u64)(i64)32);
    const i64 v12 = (i64)((u64)v11 + (u64)a1);
    const u16 v13 = b_v1[v12];
    const f32 v14 = kiln_f16_to_f32(v13);
    const f32 v15 = v10 * v14;
    v16 = v16 + v15;
  }
  const u16 v17 = kiln_f32_to_f16(v16);
  const f32 v18 = kiln_f16_to_f32(v17);
  const f32 v20 = (v18 > 0.0f || v18 != v18) ? v18 : 0.0f;
  const u16 v21 = kiln_f32_to_f16(v20);
  b_v3[v4] = v21;
}
