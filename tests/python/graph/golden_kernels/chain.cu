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
typedef struct __attribute__((aligned(16))) { f32 e[4]; } kiln_wide_4f32;

extern "C" __global__ void __launch_bounds__(128) segment0_kernel0(const f32* __restrict__ b_v0, const f32* __restrict__ b_v1, f32* b_v4, i64 n_rows) {
  const u32 first = ((u32)blockIdx.x * 128 + (u32)threadIdx.x) * 4;
  if (first >= (u32)((i64)48 * n_rows)) return;
  const kiln_wide_4f32 w6 = *(const kiln_wide_4f32*)(b_v0 + first);
  const kiln_wide_4f32 w7 = *(const kiln_wide_4f32*)(b_v1 + (i64)0 + (i64)1 * (i64)(first % (u32)(i64)48));
  kiln_wide_4f32 w14;
#pragma unroll
  for (u32 u = 0; u < 4; ++u) {
    const u32 position = first + u;
    const f32 v6 = w6.e[u];
    const f32 v7 = w7.e[u];
    const f32 v8 = v6 + v7;
    const f32 v9 = -v8;
    const f32 v10 = expf(v9);
    const f32 v11 = 1.0f + v10;
    const f32 v12 = 1.0f / v11;
    const f32 v13 = sqrtf(v12);
    w14.e[u] = v13;
  }
  *(kiln_wide_4f32*)(b_v4 + first) = w14;
}
