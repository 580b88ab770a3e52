"""The kernel of tuned_job.py, which imports a copy and removes it."""

import triton
import triton.language as tl

FACTOR = tl.constexpr(2)


@triton.jit
def scaled(x, out, n, m, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * FACTOR + SHIFT + m, mask=i < n)
