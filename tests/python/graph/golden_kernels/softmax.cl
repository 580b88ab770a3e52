typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
static inline u16 kiln_f32_to_f16(f32 x) {
  u16 y;
  vstore_half_rte(x, 0, (__private half*)&y);
  return y;
}
static inline f32 kiln_f16_to_f32(u16 x) { return vload_half(0, (const __private half*)&x); }

__attribute__((reqd_work_group_size(64, 1, 1))) __kernel void segment0_kernel0(__global const u16* restrict b_v0, __global const u16* restrict b_v1, __global u16* b_v3, i64 n_rows) {
  const u32 thread = (u32)get_local_id(0);
  const u32 position = (u32)get_group_id(0);
  if (position >= (u32)((i64)1 * n_rows)) return;
  const i64 a0 = (i64)(position);
  const i64 v2 = (i64)((u64)a0 * (u64)(i64)512);
  const u16 v8 = b_v1[(i64)0];
  const f32 v9 = kiln_f16_to_f32(v8);
  f32 v20 = as_float((u32)0xff800000);
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
  __local f32 parts_v20[64];
  if (thread % 1 == 0) parts_v20[thread / 1] = v20;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (u32 step = 32; step > 0; step /= 2) {
    if (thread < step) {
      v20 = parts_v20[thread];
      const f32 other_v20 = parts_v20[thread + step];
      v20 = (v20 > other_v20 || v20 != v20) ? v20 : other_v20;
      parts_v20[thread] = v20;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
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
    const f32 v25 = exp(v24);
    v26 = v26 + v25;
  }
  __local f32 parts_v26[64];
  if (thread % 1 == 0) parts_v26[thread / 1] = v26;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (u32 step = 32; step > 0; step /= 2) {
    if (thread < step) {
      v26 = parts_v26[thread];
      const f32 other_v26 = parts_v26[thread + step];
      v26 = v26 + other_v26;
      parts_v26[thread] = v26;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
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
    const f32 v22 = exp(v21);
    const f32 v28 = v22 * v27;
    const u16 v29 = kiln_f32_to_f16(v28);
    b_v3[v4] = v29;
  }
}
