"""Sum, maximum and histogram of a vector in one launch: programs meet in global memory through atomics."""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def reduce_atomic(x_ptr, sum_ptr, largest_ptr, histogram_ptr, n, low, width, BLOCK: tl.constexpr,
                  BINS: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < n
    x = tl.load(x_ptr + lanes, mask=inside, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(x, axis=0), sem="relaxed")
    tl.atomic_max(largest_ptr, tl.max(tl.where(inside, x, -float("inf")), axis=0))
    bins = tl.minimum(tl.maximum((x - low) / width, 0.0), BINS - 1.0).to(tl.int32)
    counts = tl.histogram(bins, BINS, mask=inside)
    tl.atomic_add(histogram_ptr + tl.arange(0, BINS), counts, sem="relaxed", scope="gpu")


INSTANCES = [
    Instance(
        "reduce_atomic",
        reduce_atomic,
        {
            "x_ptr": "*fp32:16",
            "sum_ptr": "*fp32:16",
            "largest_ptr": "*fp32:16",
            "histogram_ptr": "*i32:16",
            "n": "i32",
            "low": "fp32",
            "width": "fp32",
            "BLOCK": 1024,
            "BINS": 128,
        },
    ),
]
