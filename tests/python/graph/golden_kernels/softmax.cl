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
  const i64 v3 = (i64)((u64)a0 * (u64)(i64)512);
  f32 v19 = 0.0f;
  const u16 v11 = b_v1[(i64)0];
  const f32 v12 = kiln_f16_to_f32(v11);
  f32 v16 = as_float((u32)0xff800000);
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
  __local f32 parts_v16[64];
  if (thread % 1 == 0) parts_v16[thread / 1] = v16;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (u32 step = 32; step > 0; step /= 2) {
    if (thread < step) {
      v16 = parts_v16[thread];
      const f32 other_v16 = parts_v16[thread + step];
      v16 = (v16 > other_v16 || v16 != v16) ? v16 : other_v16;
      parts_v16[thread] = v16;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
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
    const f32 v18 = exp(v17);
    v19 = v19 + v18;
  }
  __local f32 parts_v19[64];
  if (thread % 1 == 0) parts_v19[thread / 1] = v19;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (u32 step = 32; step > 0; step /= 2) {
    if (thread < step) {
      v19 = parts_v19[thread];
      const f32 other_v19 = parts_v19[thread + step];
      v19 = v19 + other_v19;
      parts_v19[thread] = v19;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
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
    const f32 v27 = exp(v26);
    const f32 v28 = v20 * v27;
    const u16 v29 = kiln_f32_to_f16(v28);
    b_v3[v4] = v29;
  }
}
