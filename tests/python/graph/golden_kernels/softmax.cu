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
  const i64 v3 = (i64)((u64)a0 * (u64)(i64)512);
  f32 v19 = 0.0f;
  const u16 v11 = b_v1[(i64)0];
  const f32 v12 = kiln_f16_to_f32(v11);
  f32 v16 = __uint_as_float((u32)0xff800000);
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a2 = (i64)(i);
    const i64 v7 = (i64)((u64)a2 + (u64)v3);
    const u16 v8 = b_v0[v7];
    const f32 v9 = kiln_f16_to_f32(v8);
    const f32 v13 = v9 * v12;
    const u16 v14 = kiln_f32_to_f16(v13);
    const f32 v15 = kiln_f16_to_f32(v14);
    v16 = (v16 > v15 || v16 != v16) ? v16 : v15;
  }
  for (u32 step = 16; step > 0; step /= 2) {
    const f32 other_v16 = __shfl_xor_sync(0xffffffffu, v16, step);
    v16 = (v16 > other_v16 || v16 != v16) ? v16 : other_v16;
  }
  __shared__ f32 parts_v16[2];
  if (thread % 32 == 0) parts_v16[thread / 32] = v16;
  __syncthreads();
  for (u32 step = 1; step > 0; step /= 2) {
    if (thread < step) {
      v16 = parts_v16[thread];
      const f32 other_v16 = parts_v16[thread + step];
      v16 = (v16 > other_v16 || v16 != v16) ? v16 : other_v16;
      parts_v16[thread] = v16;
    }
    __syncthreads();
  }
  v16 = parts_v16[0];
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a2 = (i64)(i);
    const i64 v7 = (i64)((u64)a2 + (u64)v3);
    const u16 v8 = b_v0[v7];
    const f32 v9 = kiln_f16_to_f32(v8);
    const f32 v13 = v9 * v12;
    const u16 v14 = kiln_f32_to_f16(v13);
    const f32 v15 = kiln_f16_to_f32(v14);
    const f32 v17 = v15 - v16;
    const f32 v18 = expf(v17);
    v19 = v19 + v18;
  }
  for (u32 step = 16; step > 0; step /= 2) {
    const f32 other_v19 = __shfl_xor_sync(0xffffffffu, v19, step);
    v19 = v19 + other_v19;
  }
  __shared__ f32 parts_v19[2];
  if (thread % 32 == 0) parts_v19[thread / 32] = v19;
  __syncthreads();
  for (u32 step = 1; step > 0; step /= 2) {
    if (thread < step) {
      v19 = parts_v19[thread];
      const f32 other_v19 = parts_v19[thread + step];
      v19 = v19 + other_v19;
      parts_v19[thread] = v19;
    }
    __syncthreads();
  }
  v19 = parts_v19[0];
  const f32 v20 = 1.0f / v19;
  for (u32 i = thread; i < (u32)(i64)512; i += 64) {
    const i64 a1 = (i64)(i);
    const i64 v4 = (i64)((u64)a1 + (u64)v3);
    const u16 v21 = b_v0[v4];
    const f32 v22 = kiln_f16_to_f32(v21);
    const f32 v23 = v12 * v22;
    const u16 v24 = kiln_f32_to_f16(v23);
    const f32 v25 = kiln_f16_to_f32(v24);
    const f32 v26 = v25 - v16;
    const f32 v27 = expf(v26);
    const f32 v28 = v20 * v27;
    const u16 v29 = kiln_f32_to_f16(v28);
    b_v3[v4] = v29;
  }
}
