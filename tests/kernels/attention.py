"""Attention that never writes the matrix of scores: forward, and backward in three kernels.

All tensors are [batch * heads, length, HEAD], contiguous. Scores are kept in units of log2, as exp2 is what the hardware
has.
"""

import triton
import triton.language as tl

from declaration import Instance

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _rows(base, rows, length, HEAD: tl.constexpr):
    """The [rows, HEAD] block at `rows`, zeros past the end."""
    return tl.load(base + rows[:, None] * HEAD + tl.arange(0, HEAD)[None, :], mask=rows[:, None] < length, other=0.0)


@triton.jit
def attention_forward(q_ptr, k_ptr, v_ptr, out_ptr, norm_ptr, length, scale, BLOCK_Q: tl.constexpr,
                      BLOCK_K: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * length
    queries = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    q = _rows(q_ptr + head * HEAD, queries, length, HEAD)

    largest = tl.full([BLOCK_Q], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_Q], dtype=tl.float32)
    sums = tl.zeros([BLOCK_Q, HEAD], dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_Q, length) if CAUSAL else length
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k = _rows(k_ptr + head * HEAD, keys, length, HEAD)
        scores = tl.dot(q, tl.trans(k)) * (scale * _LOG2_E)
        visible = keys[None, :] < length
        if CAUSAL:
            visible = visible & (keys[None, :] <= queries[:, None])
        scores = tl.where(visible, scores, -1.0e6)
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, axis=1)
        v = _rows(v_ptr + head * HEAD, keys, length, HEAD)
        sums = tl.dot(weights.to(v.dtype), v, sums * shrink[:, None])
        largest = new_largest

    inside = queries < length
    tl.store(norm_ptr + head + queries, largest + tl.log2(total), mask=inside)
    offsets = queries[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    out = sums / total[:, None]
    tl.store(out_ptr + head * HEAD + offsets, out.to(tl.float16), mask=inside[:, None])


@triton.jit
def attention_backward_delta(out_ptr, dout_ptr, delta_ptr, length, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    """delta = rowsum(out * dout), which both other kernels of the backward pass need."""
    head = tl.program_id(1).to(tl.int64) * length
    queries = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = _rows(out_ptr + head * HEAD, queries, length, HEAD).to(tl.float32)
    dout = _rows(dout_ptr + head * HEAD, queries, length, HEAD).to(tl.float32)
    tl.store(delta_ptr + head + queries, tl.sum(out * dout, axis=1), mask=queries < length)


@triton.jit
def attention_backward_keys(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale,
                            BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, HEAD: tl.constexpr,
                            CAUSAL: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * length
    keys = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    k = _rows(k_ptr + head * HEAD, keys, length, HEAD)
    v = _rows(v_ptr + head * HEAD, keys, length, HEAD)
    dk = tl.zeros([BLOCK_K, HEAD], dtype=tl.float32)
    dv = tl.zeros([BLOCK_K, HEAD], dtype=tl.float32)
    begin = (tl.program_id(0) * BLOCK_K // BLOCK_Q) * BLOCK_Q if CAUSAL else 0
    for start in range(begin, length, BLOCK_Q):
        queries = start + tl.arange(0, BLOCK_Q)
        inside = queries < length
        q = _rows(q_ptr + head * HEAD, queries, length, HEAD)
        dout = _rows(dout_ptr + head * HEAD, queries, length, HEAD)
        norm = tl.load(norm_ptr + head + queries, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + head + queries, mask=inside, other=0.0)
        visible = inside[None, :] & (keys[:, None] < length)
        if CAUSAL:
            visible = visible & (keys[:, None] <= queries[None, :])
        scores = tl.dot(k, tl.trans(q)) * (scale * _LOG2_E)
        weights = tl.where(visible, tl.exp2(scores - norm[None, :]), 0.0)
        dv = tl.dot(weights.to(tl.float16), dout, dv)
        dweights = tl.dot(v, tl.trans(dout))
        dscores = weights * (dweights - delta[None, :])
        dk = tl.dot(dscores.to(tl.float16), q, dk)
    offsets = head * HEAD + keys[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    tl.store(dk_ptr + offsets, (dk * scale).to(tl.float16), mask=keys[:, None] < length)
    tl.store(dv_ptr + offsets, dv.to(tl.float16), mask=keys[:, None] < length)


@triton.jit
def attention_backward_queries(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, dq_ptr, length, scale,
                               BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, HEAD: tl.constexpr,
                               CAUSAL: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * length
    queries = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    inside = queries < length
    q = _rows(q_ptr + head * HEAD, queries, length, HEAD)
    dout = _rows(dout_ptr + head * HEAD, queries, length, HEAD)
    norm = tl.load(norm_ptr + head + queries, mask=inside, other=0.0)
    delta = tl.load(delta_ptr + head + queries, mask=inside, other=0.0)
    dq = tl.zeros([BLOCK_Q, HEAD], dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_Q, length) if CAUSAL else length
    for start in range(0, end, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k = _rows(k_ptr + head * HEAD, keys, length, HEAD)
        v = _rows(v_ptr + head * HEAD, keys, length, HEAD)
        visible = keys[None, :] < length
        if CAUSAL:
            visible = visible & (keys[None, :] <= queries[:, None])
        scores = tl.dot(q, tl.trans(k)) * (scale * _LOG2_E)
        weights = tl.where(visible, tl.exp2(scores - norm[:, None]), 0.0)
        dweights = tl.dot(dout, tl.trans(v))
        dscores = weights * (dweights - delta[:, None])
        dq = tl.dot(dscores.to(tl.float16), k, dq)
    offsets = head * HEAD + queries[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    tl.store(dq_ptr + offsets, (dq * scale).to(tl.float16), mask=inside[:, None])


_INPUTS = {"q_ptr": "*fp16:16", "k_ptr": "*fp16:16", "v_ptr": "*fp16:16"}
_GRADIENT_INPUTS = {**_INPUTS, "dout_ptr": "*fp16:16", "norm_ptr": "*fp32:16", "delta_ptr": "*fp32:16"}
_SHAPE = {"length": "i32:16", "scale": "fp32"}

INSTANCES = [
    Instance(
        "attention_forward",
        attention_forward,
        {
            **_INPUTS,
            "out_ptr": "*fp16:16",
            "norm_ptr": "*fp32:16",
            **_SHAPE,
            "BLOCK_Q": 128,
            "BLOCK_K": 64,
            "HEAD": 64,
            "CAUSAL": True,
        },
        options={"num_warps": 4, "num_stages": 3},
        hip_options={"num_stages": 2, "waves_per_eu": 2},
    ),
    Instance(
        "attention_backward_delta",
        attention_backward_delta,
        {
            "out_ptr": "*fp16:16",
            "dout_ptr": "*fp16:16",
            "delta_ptr": "*fp32:16",
            "length": "i32:16",
            "BLOCK": 128,
            "HEAD": 64,
        },
    ),
    Instance(
        "attention_backward_keys",
        attention_backward_keys,
        {
            **_GRADIENT_INPUTS,
            "dk_ptr": "*fp16:16",
            "dv_ptr": "*fp16:16",
            **_SHAPE,
            "BLOCK_Q": 32,
            "BLOCK_K": 64,
            "HEAD": 64,
            "CAUSAL": True,
        },
        options={"num_stages": 2},
        hip_options={"num_stages": 1},
    ),
    Instance(
        "attention_backward_queries",
        attention_backward_queries,
        {
            **_GRADIENT_INPUTS,
            "dq_ptr": "*fp16:16",
            **_SHAPE,
            "BLOCK_Q": 64,
            "BLOCK_K": 32,
            "HEAD": 64,
            "CAUSAL": True,
        },
        options={"num_stages": 2},
        hip_options={"num_stages": 1},
    ),
]
