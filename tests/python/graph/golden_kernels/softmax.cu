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

extern "C" __global__ void __launch_bounds__(64) segment0_kernel0(const u16* __restrict__ b_v0, const u16* __restrict__ b_v1, u16* b_v3, i64 n_rows) {
  const u32 thread = (u32)threadIdx.x;
  const u32 position = (u32)blockIdx.x;
  if (position >= (u32)((i64)1 * n_rows)) return;
  const i64 a0 = (i64)(position);
  const i64 v2 = (i64)((u64)a0 * (u64)(i64)512);
  const u16 v8 = b_v1[(i64)0];
  const f32 v9 = kiln_f16_to_f32(v8);
  f32 v20 = __uint_as_float((u32)0xff800000);
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a2 = (i64)(i);
    const i64 v14 = (i64)((u64)v2 + (u64)a2);
    const u16 v15 = b_v0[v14];
    const f32 v16 = kiln_f16_to_f32(v15);
    const f32 v17 = v16 * v9;
    const u16 v18 = kiln_f32_to_f16(v17);
    const f32 v19 = kiln_f16_to_f32(v18);
    v20 = (v20 > v19 || v20 != v20) ? v20 : v19;
  }
  for (u32 step = 16; step > 0; step /= 2) {
    const f32 other_v20 = __shfl_xor_sync(0xffffffffu, v20, step);
    v20 = (v20 > other_v20 || v20 != v20) ? v20 : other_v20;
  }
  __shared__ f32 parts_v20[2];
  if (thread % 32 == 0) parts_v20[thread / 32] = v20;
  __syncthreads();
  for (u32 step = 1; step > 0; step /= 2) {
    if (thread < step) {
      v20 = parts_v20[thread];
      const f32 other_v20 = parts_v20[thread + step];
      v20 = (v20 > other_v20 || v20 != v20) ? v20 : other_v20;
      parts_v20[thread] = v20;
    }
    __syncthreads();
  }
  v20 = parts_v20[0];
  f32 v26 = 0.0f;
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a2 = (i64)(i);
    const i64 v14 = (i64)((u64)v2 + (u64)a2);
    const u16 v15 = b_v0[v14];
    const f32 v16 = kiln_f16_to_f32(v15);
    const f32 v17 = v16 * v9;
    const u16 v18 = kiln_f32_to_f16(v17);
    const f32 v19 = kiln_f16_to_f32(v18);
    const f32 v24 = v19 - v20;
    const f32 v25 = expf(v24);
    v26 = v26 + v25;
  }
  for (u32 step = 16; step > 0; step /= 2) {
    const f32 other_v26 = __shfl_xor_sync(0xffffffffu, v26, step);
    v26 = v26 + other_v26;
  }
  __shared__ f32 parts_v26[2];
  if (thread % 32 == 0) parts_v26[thread / 32] = v26;
  __syncthreads();
  for (u32 step = 1; step > 0; step /= 2) {
    if (thread < step) {
      v26 = parts_v26[thread];
      const f32 other_v26 = parts_v26[thread + step];
      v26 = v26 + other_v26;
      parts_v26[thread] = v26;
    }
    __syncthreads();
  }
  v26 = parts_v26[0];
  const f32 v27 = 1.0f / v26;
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a1 = (i64)(i);
    const i64 v4 = (i64)((u64)v2 + (u64)a1);
    const u16 v5 = b_v0[v4];
    const f32 v6 = kiln_f16_to_f32(v5);
    const f32 v10 = v6 * v9;
    const u16 v11 = kiln_f32_to_f16(v10);
    const f32 v12 = kiln_f16_to_f32(v11);
    const f32 v21 = v12 - v20;
    const f32 v22 = expf(v21);
    const f32 v28 = v22 * v27;
    const u16 v29 = kiln_f32_to_f16(v28);
    b_v3[v4] = v29;
  }
}
