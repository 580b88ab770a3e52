typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef struct __attribute__((aligned(16))) { f32 e[4]; } kiln_wide_4f32;

__attribute__((reqd_work_group_size(128, 1, 1))) __kernel void segment0_kernel0(__global const f32* restrict b_v0, __global const f32* restrict b_v1, __global f32* b_v4, i64 n_rows) {
  const u32 first = ((u32)get_group_id(0) * 128 + (u32)get_local_id(0)) * 4;
  if (first >= (u32)((i64)48 * n_rows)) return;
  const kiln_wide_4f32 w6 = *(const __global kiln_wide_4f32*)(b_v0 + first);
  const kiln_wide_4f32 w7 = *(const __global kiln_wide_4f32*)(b_v1 + (i64)0 + (i64)1 * (i64)(first % (u32)(i64)48));
  kiln_wide_4f32 w14;
#pragma unroll
  for (u32 u = 0; u < 4; ++u) {
    const u32 position = first + u;
    const f32 v6 = w6.e[u];
    const f32 v7 = w7.e[u];
    const f32 v8 = v6 + v7;
    const f32 v9 = -v8;
    const f32 v10 = exp(v9);
    const f32 v11 = 1.0f + v10;
    const f32 v12 = 1.0f / v11;
    const f32 v13 = sqrt(v12);
    w14.e[u] = v13;
  }
  *(__global kiln_wide_4f32*)(b_v4 + first) = w14;
}
