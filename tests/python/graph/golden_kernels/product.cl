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

__attribute__((reqd_work_group_size(128, 1, 1))) __kernel void segment0_kernel0(__global const u16* restrict b_v0, __global const u16* restrict b_v1, __global u16* b_v3, i64 n_rows) {
  const u32 position = (u32)get_group_id(0) * 128 + (u32)get_local_id(0);
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
