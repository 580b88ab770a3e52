"""Element-wise sum of two vectors: the smallest kernel that does something."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


INSTANCES = [
    Instance(
        "vector_add",
        vector_add,
        {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32:16", "BLOCK": 1024},
    ),
]
