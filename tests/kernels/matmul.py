"""Products of fp16 matrices with fp32 sums: one product, and a group of products in a persistent loop."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def _tile_of(program, tiles_m, tiles_n, GROUP: tl.constexpr):
    """The tile that a program works on: neighbours share rows of A, so that these stay in the L2 cache."""
    tiles_in_group = GROUP * tiles_n
    first_m = (program // tiles_in_group) * GROUP
    rows = tl.minimum(tiles_m - first_m, GROUP)
    within = program % tiles_in_group
    return first_m + within % rows, within // rows


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_bk, stride_cm, BLOCK_M: tl.constexpr,
           BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    tile_m, tile_n = _tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % m)[:, None] * stride_am + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * stride_bk + (columns % n)[None, :]

    sums = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=depth[None, :] < k - start, other=0.0)
        b = tl.load(b_ptrs, mask=depth[:, None] < k - start, other=0.0)
        sums = tl.dot(a, b, sums)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk

    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, sums.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def grouped_matmul(a_table_ptr, b_table_ptr, c_table_ptr, sizes_ptr, strides_ptr, problems,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Many products of different sizes in one launch: a fixed number of programs walks over all the tiles."""
    programs = tl.num_programs(0)
    tile = tl.program_id(0)
    tiles_before = 0
    for problem in range(problems):
        m = tl.load(sizes_ptr + problem * 3)
        n = tl.load(sizes_ptr + problem * 3 + 1)
        k = tl.load(sizes_ptr + problem * 3 + 2)
        tiles_n = tl.cdiv(n, BLOCK_N)
        tiles = tl.cdiv(m, BLOCK_M) * tiles_n
        stride_am = tl.load(strides_ptr + problem * 3)
        stride_bk = tl.load(strides_ptr + problem * 3 + 1)
        stride_cm = tl.load(strides_ptr + problem * 3 + 2)
        a_ptr = tl.load(a_table_ptr + problem).to(tl.pointer_type(tl.float16))
        b_ptr = tl.load(b_table_ptr + problem).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(c_table_ptr + problem).to(tl.pointer_type(tl.float16))

        while tile < tiles_before + tiles:
            within = tile - tiles_before
            rows = (within // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
            columns = (within % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
            depth = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + (rows % m)[:, None] * stride_am + depth[None, :]
            b_ptrs = b_ptr + depth[:, None] * stride_bk + (columns % n)[None, :]
            sums = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
            for start in range(0, k, BLOCK_K):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs, mask=depth[None, :] < k - start, other=0.0)
                b = tl.load(b_ptrs, mask=depth[:, None] < k - start, other=0.0)
                sums = tl.dot(a, b, sums)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * stride_bk
            c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
            tl.store(c_ptrs, sums.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))
            tile += programs
        tiles_before += tiles


@triton.jit
def descriptor_matmul(a_desc, b_desc, c_ptr, m, n, k, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr, GROUP: tl.constexpr, WARP_SPECIALIZE: tl.constexpr):
    """C = A B^T through tensor descriptors: on Hopper and later whole tiles move by TMA, elsewhere by pointers."""
    tile_m, tile_n = _tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP)
    row = tile_m * BLOCK_M
    column = tile_n * BLOCK_N
    sums = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for step in tl.range(0, tl.cdiv(k, BLOCK_K), warp_specialize=WARP_SPECIALIZE):
        a = a_desc.load([row, step * BLOCK_K])
        b = b_desc.load([column, step * BLOCK_K])
        sums = tl.dot(a, b.T, sums)
    rows = row + tl.arange(0, BLOCK_M)
    columns = column + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, sums.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))


def _matmul(block_m, block_n, block_k, options, hip_options=None, suffix="", needs=0):
    return Instance(
        f"matmul_{block_m}x{block_n}x{block_k}{suffix}",
        matmul,
        {
            "a_ptr": "*fp16:16",
            "b_ptr": "*fp16:16",
            "c_ptr": "*fp16:16",
            "m": "i32:16",
            "n": "i32:16",
            "k": "i32:16",
            "stride_am": "i32:16",
            "stride_bk": "i32:16",
            "stride_cm": "i32:16",
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "GROUP": 8,
        },
        options=options,
        hip_options=hip_options or {"num_stages": 2},
        needs=needs,
    )


def _descriptor_matmul(name, block_m, block_n, block_k, warp_specialize, options, needs=0):
    return Instance(
        name,
        descriptor_matmul,
        {
            "a_desc": f"tensordesc<fp16[{block_m},{block_k}]>",
            "b_desc": f"tensordesc<fp16[{block_n},{block_k}]>",
            "c_ptr": "*fp16:16",
            "m": "i32:16",
            "n": "i32:16",
            "k": "i32:16",
            "stride_cm": "i32:16",
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "GROUP": 8,
            "WARP_SPECIALIZE": warp_specialize,
        },
        options=options,
        hip_options={"num_stages": 2},
        needs=needs,
    )


INSTANCES = [
    _matmul(64, 64, 32, {"num_stages": 4}),
    _matmul(128, 128, 64, {"num_warps": 8}, {"num_stages": 2, "matrix_instr_nonkdim": 16}),
    _matmul(128, 256, 64, {"num_warps": 8}, {"num_stages": 2, "waves_per_eu": 2}),
    # Two CTAs that share one tile: only Hopper and later have clusters.
    _matmul(128, 128, 64, {"num_warps": 4, "num_ctas": 2}, suffix="_two_ctas", needs=90),
    Instance(
        "grouped_matmul",
        grouped_matmul,
        {
            "a_table_ptr": "*i64:16",
            "b_table_ptr": "*i64:16",
            "c_table_ptr": "*i64:16",
            "sizes_ptr": "*i32:16",
            "strides_ptr": "*i32:16",
            "problems": "i32",
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 32,
        },
        hip_options={"num_stages": 2},
    ),
    _descriptor_matmul("descriptor_matmul", 128, 128, 64, False, {"num_warps": 8}),
    # Some warps only move tiles, others only multiply: more warps come out than were asked for. On Hopper, Triton 3.6 halves a tile of
    # 128 rows between two groups of warps but leaves the descriptor's tile whole: each load brings in twice the bytes that its
    # barrier waits for, and the kernel hangs (tests/gpu/triton_matmul_ws.py). One of 64 rows is not halved.
    _descriptor_matmul("warp_specialized_matmul", 64, 128, 64, True, {"num_warps": 4}, needs=90),
]
