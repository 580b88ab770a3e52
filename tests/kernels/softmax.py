"""Softmax over the rows of a matrix, each row read once."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def softmax(out_ptr, in_ptr, in_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(in_ptr + row * in_stride + lanes, mask=inside, other=-float("inf"))
        shifted = values - tl.max(values, axis=0)
        powers = tl.exp(shifted)
        tl.store(out_ptr + row * out_stride + lanes, powers / tl.sum(powers, axis=0), mask=inside)


INSTANCES = [
    Instance(
        "softmax",
        softmax,
        {
            "out_ptr": "*fp32:16",
            "in_ptr": "*fp32:16",
            "in_stride": "i32:16",
            "out_stride": "i32:16",
            "rows": "i32",
            "columns": "i32",
            "BLOCK": 2048,
        },
        options={"num_warps": 8},
    ),
]
