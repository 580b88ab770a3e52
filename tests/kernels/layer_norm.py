"""Layer normalisation over the last dimension, forward and backward.

The backward pass comes in two kernels, since the gradients of weight and bias are sums over rows while the gradient of
the input is computed row by row: the first writes partial sums of a group of rows, the second adds the groups up.
"""

import triton
import triton.language as tl

from declaration import Instance


@triton.jit
def layer_norm_forward(x_ptr, y_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, stride, columns, epsilon,
                       BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride

    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + lanes, mask=lanes < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < columns, other=0.0).to(tl.float32)
        centred = tl.where(lanes < columns, x - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + epsilon)

    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        inside = lanes < columns
        weight = tl.load(weight_ptr + lanes, mask=inside)
        bias = tl.load(bias_ptr + lanes, mask=inside)
        x = tl.load(x_ptr + lanes, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + lanes, (x - mean) * rstd * weight + bias, mask=inside)


@triton.jit
def layer_norm_backward_input(dx_ptr, dy_ptr, dweight_ptr, dbias_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr,
                              stride, rows, columns, ROWS_PER_GROUP: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    weight = tl.load(weight_ptr + lanes, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], dtype=tl.float32)
    dbias = tl.zeros([BLOCK], dtype=tl.float32)

    first = group * ROWS_PER_GROUP
    for row in range(first, tl.minimum(first + ROWS_PER_GROUP, rows)):
        x = tl.load(x_ptr + row * stride + lanes, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride + lanes, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(inside, (x - mean) * rstd, 0.0)
        scaled = weight * dy
        along_normal = tl.sum(normal * scaled, axis=0) / columns
        along_ones = tl.sum(scaled, axis=0) / columns
        dx = (scaled - (normal * along_normal + along_ones)) * rstd
        tl.store(dx_ptr + row * stride + lanes, dx, mask=inside)
        dweight += dy * normal
        dbias += dy

    tl.store(dweight_ptr + group * columns + lanes, dweight, mask=inside)
    tl.store(dbias_ptr + group * columns + lanes, dbias, mask=inside)


@triton.jit
def layer_norm_backward_weight(dweight_ptr, dbias_ptr, weight_out_ptr, bias_out_ptr, groups, columns,
                               BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    dweight = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], dtype=tl.float32)
    dbias = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], dtype=tl.float32)
    for start in range(0, groups, BLOCK_ROWS):
        group = start + tl.arange(0, BLOCK_ROWS)
        inside = (group[:, None] < groups) & (lanes[None, :] < columns)
        offsets = group[:, None] * columns + lanes[None, :]
        dweight += tl.load(dweight_ptr + offsets, mask=inside, other=0.0)
        dbias += tl.load(dbias_ptr + offsets, mask=inside, other=0.0)
    tl.store(weight_out_ptr + lanes, tl.sum(dweight, axis=0), mask=lanes < columns)
    tl.store(bias_out_ptr + lanes, tl.sum(dbias, axis=0), mask=lanes < columns)


INSTANCES = [
    Instance(
        "layer_norm_forward",
        layer_norm_forward,
        {
            "x_ptr": "*fp16:16",
            "y_ptr": "*fp16:16",
            "weight_ptr": "*fp16:16",
            "bias_ptr": "*fp16:16",
            "mean_ptr": "*fp32:16",
            "rstd_ptr": "*fp32:16",
            "stride": "i32:16",
            "columns": "i32:16",
            "epsilon": "fp32",
            "BLOCK": 1024,
        },
    ),
    Instance(
        "layer_norm_backward_input",
        layer_norm_backward_input,
        {
            "dx_ptr": "*fp16:16",
            "dy_ptr": "*fp16:16",
            "dweight_ptr": "*fp32:16",
            "dbias_ptr": "*fp32:16",
            "x_ptr": "*fp16:16",
            "weight_ptr": "*fp16:16",
            "mean_ptr": "*fp32:16",
            "rstd_ptr": "*fp32:16",
            "stride": "i32:16",
            "rows": "i32",
            "columns": "i32:16",
            "ROWS_PER_GROUP": 16,
            "BLOCK": 1024,
        },
        options={"num_warps": 8},
    ),
    Instance(
        "layer_norm_backward_weight",
        layer_norm_backward_weight,
        {
            "dweight_ptr": "*fp32:16",
            "dbias_ptr": "*fp32:16",
            "weight_out_ptr": "*fp16:16",
            "bias_out_ptr": "*fp16:16",
            "groups": "i32",
            "columns": "i32:16",
            "BLOCK_ROWS": 32,
            "BLOCK_COLUMNS": 64,
        },
    ),
]
