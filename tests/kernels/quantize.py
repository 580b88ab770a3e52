"""Row-wise symmetric quantisation to int8: the scale of a row is its largest magnitude over 127."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from declaration import Instance


@triton.jit
def quantize_int8(x_ptr, out_ptr, scale_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * stride + lanes, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0) / 127.0, 1.0e-8)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * stride + lanes, libdevice.nearbyint(x / scale).to(tl.int8), mask=inside)


INSTANCES = [
    Instance(
        "quantize_int8",
        quantize_int8,
        {
            "x_ptr": "*bf16:16",
            "out_ptr": "*i8:16",
            "scale_ptr": "*fp32:16",
            "stride": "i32:16",
            "columns": "i32:16",
            "BLOCK": 4096,
        },
        options={"num_warps": 8},
    ),
]
