"""Rotary position embedding, in place: the two halves of each head turn by an angle that grows with the position."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, length, heads, stride, BLOCK_HEADS: tl.constexpr, HALF: tl.constexpr,
           BACKWARD: tl.constexpr):
    token = tl.program_id(0)
    position = token % length
    lanes = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + position * HALF + lanes)[None, :]
    sin = tl.load(sin_ptr + position * HALF + lanes)[None, :]
    if BACKWARD:
        sin = -sin
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    inside = head[:, None] < heads
    first_ptrs = x_ptr + token * stride + head[:, None] * (2 * HALF) + lanes[None, :]
    first = tl.load(first_ptrs, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(first_ptrs + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(first_ptrs, (first * cos - second * sin).to(tl.bfloat16), mask=inside)
    tl.store(first_ptrs + HALF, (second * cos + first * sin).to(tl.bfloat16), mask=inside)


def _rotary(name, backward):
    return Instance(
        name,
        rotary,
        {
            "x_ptr": "*bf16:16",
            "cos_ptr": "*fp32:16",
            "sin_ptr": "*fp32:16",
            "length": "i32",
            "heads": "i32",
            "stride": "i32:16",
            "BLOCK_HEADS": 8,
            "HALF": 64,
            "BACKWARD": backward,
        },
    )


INSTANCES = [_rotary("rotary", False), _rotary("rotary_backward", True)]
