"""The example kernels with their outputs behind their arguments, as kiln.jax.triton_call passes them, and what JAX has to say of their
results. jax_job.py runs them."""

import dataclasses
import functools
import math
import pathlib
import sys
from typing import Any, Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kernels")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.language.extra import cuda  # noqa: E402

import attention  # noqa: E402
import catalog  # noqa: E402
import layer_norm  # noqa: E402
from cross_entropy import cross_entropy  # noqa: E402
from launch_kernels import device_descriptor_add  # noqa: E402
from matmul import descriptor_matmul, grouped_matmul, matmul  # noqa: E402
from quantize import quantize_int8  # noqa: E402
from reduction import reduce_atomic  # noqa: E402
from rotary import rotary  # noqa: E402
from softmax import softmax  # noqa: E402
from vector_add import vector_add  # noqa: E402

INSTANCES = {instance.name: instance for instance in catalog.instances()}
LOG2_E = math.log2(math.e)
# triton_call's compute_capability; None: this machine's.
capability = None

_norm_forward, _norm_input, _norm_weight = (layer_norm.layer_norm_forward, layer_norm.layer_norm_backward_input,
                                            layer_norm.layer_norm_backward_weight)
_forward, _delta, _keys, _queries = (attention.attention_forward, attention.attention_backward_delta, attention.attention_backward_keys,
                                     attention.attention_backward_queries)


@triton.jit
def add_(x_ptr, y_ptr, n, out_ptr, BLOCK: tl.constexpr):
    vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK)


@triton.jit
def accumulate_(x_ptr, n, out_ptr, BLOCK: tl.constexpr):
    vector_add(x_ptr, out_ptr, out_ptr, n, BLOCK)


@triton.jit
def add_in_place_(x_ptr, given_ptr, n, out_ptr, BLOCK: tl.constexpr):
    """given and out are one buffer."""
    vector_add(x_ptr, given_ptr, out_ptr, n, BLOCK)


@triton.jit
def add_to_(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    vector_add(x_ptr, sums_ptr, sums_ptr, n, BLOCK)


@triton.jit
def softmax_(in_ptr, in_stride, out_stride, rows, columns, out_ptr, BLOCK: tl.constexpr):
    softmax(out_ptr, in_ptr, in_stride, out_stride, rows, columns, BLOCK)


@triton.jit
def layer_norm_forward_(x_ptr, weight_ptr, bias_ptr, stride, columns, epsilon, y_ptr, mean_ptr, rstd_ptr, BLOCK: tl.constexpr):
    _norm_forward(x_ptr, y_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, stride, columns, epsilon, BLOCK)


@triton.jit
def layer_norm_backward_input_(dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, stride, rows, columns, dx_ptr, dweight_ptr, dbias_ptr,
                               ROWS_PER_GROUP: tl.constexpr, BLOCK: tl.constexpr):
    _norm_input(dx_ptr, dy_ptr, dweight_ptr, dbias_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, stride, rows, columns, ROWS_PER_GROUP, BLOCK)


@triton.jit
def layer_norm_backward_weight_(dweight_ptr, dbias_ptr, groups, columns, weight_out_ptr, bias_out_ptr, BLOCK_ROWS: tl.constexpr,
                                BLOCK_COLUMNS: tl.constexpr):
    _norm_weight(dweight_ptr, dbias_ptr, weight_out_ptr, bias_out_ptr, groups, columns, BLOCK_ROWS, BLOCK_COLUMNS)


@triton.jit
def matmul_(a_ptr, b_ptr, m, n, k, stride_am, stride_bk, stride_cm, c_ptr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    matmul(a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_bk, stride_cm, BLOCK_M, BLOCK_N, BLOCK_K, GROUP)


@triton.jit
def descriptor_matmul_(a_desc, b_desc, m, n, k, stride_cm, c_ptr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                       GROUP: tl.constexpr, WARP_SPECIALIZE: tl.constexpr):
    descriptor_matmul(a_desc, b_desc, c_ptr, m, n, k, stride_cm, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, WARP_SPECIALIZE)


@triton.jit
def grouped_matmul_(a_ptr, b_ptr, starts_ptr, sizes_ptr, strides_ptr, problems, c_ptr, tables_ptr, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The matrices of all problems lie in three arrays, since an array of JAX has no address while a program is built. starts: where each
    begins. Every program writes the same tables of addresses."""
    tables = tables_ptr.to(tl.pointer_type(tl.int64))
    place = tl.arange(0, 16)
    is_there = place < problems
    tl.store(tables + place, (a_ptr + tl.load(starts_ptr + place, is_there)).to(tl.int64), is_there)
    tl.store(tables + 16 + place, (b_ptr + tl.load(starts_ptr + 16 + place, is_there)).to(tl.int64), is_there)
    tl.store(tables + 32 + place, (c_ptr + tl.load(starts_ptr + 32 + place, is_there)).to(tl.int64), is_there)
    tl.debug_barrier()
    grouped_matmul(tables, tables + 16, tables + 32, sizes_ptr, strides_ptr, problems, BLOCK_M, BLOCK_N, BLOCK_K)


@triton.jit
def double_tiles_(x_desc, out_desc, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    place = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
    out_desc.store(place, x_desc.load(place) * 2)


@triton.jit
def attention_forward_(q_ptr, k_ptr, v_ptr, length, scale, out_ptr, norm_ptr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
                       HEAD: tl.constexpr, CAUSAL: tl.constexpr):
    _forward(q_ptr, k_ptr, v_ptr, out_ptr, norm_ptr, length, scale, BLOCK_Q, BLOCK_K, HEAD, CAUSAL)


@triton.jit
def attention_backward_delta_(out_ptr, dout_ptr, length, delta_ptr, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    _delta(out_ptr, dout_ptr, delta_ptr, length, BLOCK, HEAD)


@triton.jit
def attention_backward_keys_(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, length, scale, dk_ptr, dv_ptr, BLOCK_Q: tl.constexpr,
                             BLOCK_K: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr):
    _keys(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale, BLOCK_Q, BLOCK_K, HEAD, CAUSAL)


@triton.jit
def attention_backward_queries_(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, length, scale, dq_ptr, BLOCK_Q: tl.constexpr,
                                BLOCK_K: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr):
    _queries(q_ptr, k_ptr, v_ptr, dout_ptr, norm_ptr, delta_ptr, dq_ptr, length, scale, BLOCK_Q, BLOCK_K, HEAD, CAUSAL)


@triton.jit
def reduce_atomic_(x_ptr, n, low, width, sum_ptr, largest_ptr, histogram_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    reduce_atomic(x_ptr, sum_ptr, largest_ptr, histogram_ptr, n, low, width, BLOCK, BINS)


@triton.jit
def quantize_int8_(x_ptr, stride, columns, out_ptr, scale_ptr, BLOCK: tl.constexpr):
    quantize_int8(x_ptr, out_ptr, scale_ptr, stride, columns, BLOCK)


@triton.jit
def rotary_(x_ptr, cos_ptr, sin_ptr, length, heads, stride, out_ptr, BLOCK_HEADS: tl.constexpr, HALF: tl.constexpr, BACKWARD: tl.constexpr):
    rotary(out_ptr, cos_ptr, sin_ptr, length, heads, stride, BLOCK_HEADS, HALF, BACKWARD)


@triton.jit
def cross_entropy_(logits_ptr, labels_ptr, stride, classes, ignored, gradient_scale, gradient_ptr, loss_ptr, BLOCK: tl.constexpr):
    cross_entropy(gradient_ptr, labels_ptr, loss_ptr, stride, classes, ignored, gradient_scale, BLOCK)


@triton.jit
def descriptor_add_(x_ptr, y_ptr, rows, columns, out_ptr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    device_descriptor_add(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS, BLOCK_COLUMNS)


@triton.jit
def add_after_(x_ptr, y_ptr, n, out_ptr, BLOCK: tl.constexpr):
    """May begin while the kernel before it runs, and waits for what that one writes."""
    cuda.gdc_launch_dependents()
    cuda.gdc_wait()
    vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK)


@triton.jit
def sums_of_next_(x_ptr, arrived_ptr, sums_ptr, out_ptr, BLOCK: tl.constexpr):
    """Each program waits for all others: it writes the sum that the next one made."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    tl.store(sums_ptr + program, tl.sum(tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK))))
    tl.debug_barrier()
    tl.atomic_add(arrived_ptr, 1)
    while tl.atomic_add(arrived_ptr, 0) < programs:
        pass
    tl.store(out_ptr + program, tl.load(sums_ptr + (program + 1) % programs, volatile=True))


# --- Calls -----------------------------------------------------------------------------------------------------------


def call(*args, **keywords):
    from kiln.jax import triton_call
    return triton_call(*args, compute_capability=capability, **keywords)


def shape(*lengths, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(lengths, dtype)


def add(x, y, **more):
    return call(x, y, x.size, kernel=add_, out_shape=shape(*x.shape, dtype=x.dtype), grid=(triton.cdiv(x.size, 1024),),
                **{"BLOCK": 1024, **more})


def add_in_place(x, given):
    return call(x, given, x.size, kernel=add_in_place_, out_shape=shape(*x.shape), grid=(triton.cdiv(x.size, 1024),),
                input_output_aliases={1: 0}, BLOCK=1024)


def add_to(x, held):
    """held: a jax.Ref."""
    call(x, held, x.size, kernel=add_to_, out_type=(), grid=(triton.cdiv(x.size, 1024),), BLOCK=1024)


def accumulate(x):
    return call(x, x.size, kernel=accumulate_, out_shape=shape(*x.shape), grid=(triton.cdiv(x.size, 1024),), zeroed_outputs=(0,), BLOCK=1024)


def descriptor_add(x, y):
    rows, columns = x.shape
    return call(x, y, rows, columns, kernel=descriptor_add_, out_shape=shape(rows, columns),
                grid=(triton.cdiv(rows, 16), triton.cdiv(columns, 64)), BLOCK_ROWS=16, BLOCK_COLUMNS=64)


def double_tiles(x):
    from kiln.jax import TensorDescriptor
    (rows, columns), tile = x.shape, (16, 32)
    return call(TensorDescriptor.from_tensor(x, tile), kernel=double_tiles_, out_shape=TensorDescriptor.from_tensor(shape(*x.shape), tile),
                grid=(triton.cdiv(rows, 16), triton.cdiv(columns, 32)), ROWS=16, COLUMNS=32)


def add_after(x, y):
    return call(x, y, x.size, kernel=add_after_, out_shape=shape(*x.shape), grid=(triton.cdiv(x.size, 1024),), BLOCK=1024, launch_pdl=True)


def sums_of_next(x, programs=64):
    """Of parts of 1024 elements."""
    return call(x, kernel=sums_of_next_, out_shape=(shape(1, dtype=jnp.int32), shape(programs), shape(programs)), grid=(programs,),
                zeroed_outputs=(0,), BLOCK=1024, launch_cooperative_grid=True)[2]


def by_instance(name, kernel, *args, **keywords):
    """With the constants and options of an example."""
    instance = INSTANCES[name]
    return call(*args, kernel=kernel, **keywords, **instance.constexprs(), **instance.options)


SCALE = 0.125


def attention_parts(q, k, v):
    heads, length, head = q.shape
    grid = (triton.cdiv(length, INSTANCES["attention_forward"].constexprs()["BLOCK_Q"]), heads)
    return by_instance("attention_forward", attention_forward_, q, k, v, length, SCALE,
                       out_shape=(shape(heads, length, head, dtype=q.dtype), shape(heads, length)), grid=grid)


@jax.custom_vjp
def flash_attention(q, k, v):
    return attention_parts(q, k, v)[0]


def _attention_forward(q, k, v):
    out, norm = attention_parts(q, k, v)
    return out, (q, k, v, out, norm)


def attention_delta(out, dout):
    heads, length, _ = out.shape
    return by_instance("attention_backward_delta", attention_backward_delta_, out, dout, length, out_shape=shape(heads, length),
                       grid=(triton.cdiv(length, 128), heads))


def attention_keys(q, k, v, dout, norm, delta):
    heads, length, head = q.shape
    block = INSTANCES["attention_backward_keys"].constexprs()["BLOCK_K"]
    return by_instance("attention_backward_keys", attention_backward_keys_, q, k, v, dout, norm, delta, length, SCALE,
                       out_shape=(shape(heads, length, head, dtype=q.dtype),) * 2, grid=(triton.cdiv(length, block), heads))


def attention_queries(q, k, v, dout, norm, delta):
    heads, length, head = q.shape
    block = INSTANCES["attention_backward_queries"].constexprs()["BLOCK_Q"]
    return by_instance("attention_backward_queries", attention_backward_queries_, q, k, v, dout, norm, delta, length, SCALE,
                       out_shape=shape(heads, length, head, dtype=q.dtype), grid=(triton.cdiv(length, block), heads))


def _attention_backward(kept, dout):
    q, k, v, out, norm = kept
    delta = attention_delta(out, dout)
    return attention_queries(q, k, v, dout, norm, delta), *attention_keys(q, k, v, dout, norm, delta)


flash_attention.defvjp(_attention_forward, _attention_backward)


def plain_attention(q, k, v):
    """In single precision: output, and the norm that the kernels hand each other."""
    q, k, v = (one.astype(jnp.float32) for one in (q, k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k, precision="highest") * SCALE
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v, precision="highest"), jax.nn.logsumexp(scores, axis=2) * LOG2_E


# --- Cases -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """inputs(): the arrays. run: what calls the kernel. expected: the same by JAX. Each pair of results differs by at most `tolerance`,
    absolute and relative."""
    inputs: Callable[[], Any]
    run: Callable[..., Any]
    expected: Callable[..., Any]
    tolerance: float = 0.0


_random = np.random.default_rng(1)


def random(*lengths, dtype=jnp.float16):
    return jnp.asarray(_random.standard_normal(lengths, dtype=np.float32)).astype(dtype)


def _softmax(x):
    rows, columns = x.shape
    return by_instance("softmax", softmax_, x, columns, columns, rows, columns - 9, out_shape=shape(rows, columns), grid=(132,),
                       zeroed_outputs=(0,))


def _layer_norm(x, weight, bias):
    rows, columns = x.shape
    return by_instance("layer_norm_forward", layer_norm_forward_, x, weight, bias, columns, columns, 1e-5,
                       out_shape=(shape(rows, columns, dtype=x.dtype), shape(rows), shape(rows)), grid=(rows,))


def _plain_norm(x, weight, bias):
    x = x.astype(jnp.float32)
    mean, rstd = x.mean(1), jax.lax.rsqrt(x.var(1) + 1e-5)
    return (x - mean[:, None]) * rstd[:, None] * weight.astype(jnp.float32) + bias.astype(jnp.float32), mean, rstd


def _layer_norm_input(x, weight, bias, dy):
    rows, columns = x.shape
    _, mean, rstd = _plain_norm(x, weight, bias)
    groups = triton.cdiv(rows, 16)
    dx, dweight, dbias = by_instance(
        "layer_norm_backward_input", layer_norm_backward_input_, dy, x, weight, mean, rstd, columns, rows, columns,
        out_shape=(shape(rows, columns, dtype=x.dtype), shape(groups, columns), shape(groups, columns)), grid=(groups,))
    return dx, dweight.sum(0), dbias.sum(0)


def _plain_norm_input(x, weight, bias, dy):
    leaves = [one.astype(jnp.float32) for one in (x, weight, bias)]
    return jax.vjp(lambda *given: _plain_norm(*given)[0], *leaves)[1](dy.astype(jnp.float32))


def _layer_norm_weight(dweight, dbias):
    groups, columns = dweight.shape
    block = INSTANCES["layer_norm_backward_weight"].constexprs()["BLOCK_COLUMNS"]
    return by_instance("layer_norm_backward_weight", layer_norm_backward_weight_, dweight, dbias, groups, columns,
                       out_shape=(shape(columns, dtype=jnp.float16),) * 2, grid=(triton.cdiv(columns, block),))


def _matmul(name):

    def run(a, b):
        (m, k), (_, n) = a.shape, b.shape
        constants = INSTANCES[name].constexprs()
        return by_instance(name, matmul_, a, b, m, n, k, k, n, n, out_shape=shape(m, n, dtype=a.dtype),
                           grid=(triton.cdiv(m, constants["BLOCK_M"]) * triton.cdiv(n, constants["BLOCK_N"]),))

    def expected(a, b):
        return jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32), precision="highest")

    return Case(lambda: (random(528, 400), random(400, 784)), run, expected, 5e-2)


def _descriptor_matmul(name):

    def run(a, b):
        from kiln.jax import TensorDescriptor
        (m, k), (n, _) = a.shape, b.shape
        block_m, block_n, block_k = (INSTANCES[name].constexprs()[f"BLOCK_{one}"] for one in "MNK")
        return by_instance(name, descriptor_matmul_, TensorDescriptor.from_tensor(a, (block_m, block_k)),
                           TensorDescriptor.from_tensor(b, (block_n, block_k)), m, n, k, n, out_shape=shape(m, n, dtype=a.dtype),
                           grid=(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),))

    def expected(a, b):
        return jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32).T, precision="highest")

    return Case(lambda: (random(528, 448), random(784, 448)), run, expected, 5e-2)


PROBLEMS = ((256, 128, 192), (96, 400, 64), (528, 272, 320), (16, 16, 16))


def _starts():
    """Of each matrix in its array, and the arrays' lengths: of all a, all b, all c."""
    sizes = [[rows * columns for rows, columns in one] for one in zip(*(((m, k), (k, n), (m, n)) for m, n, k in PROBLEMS))]
    return [[sum(one[:place]) for place in range(len(one))] for one in sizes], [sum(one) for one in sizes]


def _grouped_matmul(a, b):
    starts, (_, _, length) = _starts()
    padded = np.zeros((3, 16), np.int32)
    padded[:, :len(PROBLEMS)] = starts
    strides = [(k, n, n) for _, n, k in PROBLEMS]
    tables = (jnp.asarray(np.array(one, np.int32).ravel()) for one in (padded, PROBLEMS, strides))
    return by_instance("grouped_matmul", grouped_matmul_, a, b, *tables, len(PROBLEMS),
                       out_shape=(shape(length, dtype=a.dtype), shape(96, dtype=jnp.int32)), grid=(5,))[0]


def _plain_grouped_matmul(a, b):
    (a_starts, b_starts, _), _ = _starts()
    pairs = [(a[at:at + m * k].reshape(m, k), b[to:to + k * n].reshape(k, n)) for (m, n, k), at, to in zip(PROBLEMS, a_starts, b_starts)]
    return jnp.concatenate([jnp.matmul(*(one.astype(jnp.float32) for one in pair), precision="highest").ravel() for pair in pairs])


def _attention_inputs():
    q, k, v, dout = (random(6, 400, 64) for _ in range(4))
    out, norm = plain_attention(q, k, v)
    return q, k, v, dout, norm, (out * dout.astype(jnp.float32)).sum(2)


def _plain_gradients(q, k, v, dout, *_):
    leaves = [one.astype(jnp.float32) for one in (q, k, v)]
    return jax.vjp(lambda *given: plain_attention(*given)[0], *leaves)[1](dout.astype(jnp.float32))


def _reduce(x):
    return by_instance("reduce_atomic", reduce_atomic_, x, x.size, 0.0, 1.0 / 128,
                       out_shape=(shape(1), shape(1), shape(128, dtype=jnp.int32)), grid=(triton.cdiv(x.size, 1024),), zeroed_outputs=(0, 1, 2))


def _plain_reduce(x):
    return x.sum()[None], x.max()[None], jnp.bincount((x * 128).astype(jnp.int32), length=128)


def _quantize(x):
    rows, columns = x.shape
    out, scale = by_instance("quantize_int8", quantize_int8_, x, columns, columns,
                             out_shape=(shape(rows, columns, dtype=jnp.int8), shape(rows)), grid=(rows,))
    return out * scale[:, None], scale


def _plain_quantize(x):
    """Half a step is at most 0.02."""
    x = x.astype(jnp.float32)
    return x, jnp.abs(x).max(1) / 127


def _rotary(name, sign):

    def run(x, cos, sin):
        tokens, heads, head = x.shape
        block = INSTANCES[name].constexprs()["BLOCK_HEADS"]
        return by_instance(name, rotary_, x, cos, sin, tokens // 2, heads, heads * head, out_shape=shape(*x.shape, dtype=x.dtype),
                           grid=(tokens, triton.cdiv(heads, block)), input_output_aliases={0: 0})

    def expected(x, cos, sin):
        first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        c, s = (jnp.tile(one, (2, 1))[:, None] for one in (cos, sign * sin))
        return jnp.concatenate([first * c - second * s, second * c + first * s], -1)

    def inputs():
        angle = jnp.asarray(_random.random((33, 64), dtype=np.float32))
        return random(66, 12, 128, dtype=jnp.bfloat16), jnp.cos(angle), jnp.sin(angle)

    return Case(inputs, run, expected, 2e-2)


CLASSES, IGNORED = 10_001, -100


def _cross_entropy(logits, labels):
    rows, stride = logits.shape
    gradient, loss = by_instance("cross_entropy", cross_entropy_, logits, labels, stride, CLASSES, IGNORED, 1.0,
                                 out_shape=(shape(rows, stride, dtype=logits.dtype), shape(rows)), grid=(rows,), input_output_aliases={0: 0})
    return loss, gradient[:, :CLASSES]


def _plain_cross_entropy(logits, labels):

    def losses(given):
        chosen = jnp.take_along_axis(jax.nn.log_softmax(given), jnp.clip(labels, 0)[:, None], axis=1)[:, 0]
        return jnp.where(labels == IGNORED, 0.0, -chosen)

    given = logits.astype(jnp.float32)[:, :CLASSES]
    return losses(given), jax.grad(lambda one: losses(one).sum())(given)


def _cross_entropy_inputs():
    labels = _random.integers(0, CLASSES, 64).astype(np.int32)
    labels[::8] = IGNORED
    return random(64, 10_016, dtype=jnp.bfloat16), jnp.asarray(labels)


def _floats(*lengths):
    return lambda: tuple(random(*lengths, dtype=jnp.float32) for _ in range(2))


CASES = {
    "vector_add": Case(_floats(100_000), add, jnp.add),
    "softmax": Case(lambda: (random(500, 1920, dtype=jnp.float32),), _softmax,
                    lambda x: jnp.pad(jax.nn.softmax(x[:, :-9], axis=1), ((0, 0), (0, 9))), 1e-5),
    "layer_norm_forward": Case(lambda: (random(250, 1008), random(1008), random(1008)), _layer_norm, _plain_norm, 1e-2),
    "layer_norm_backward_input": Case(lambda: (random(250, 1008), random(1008), random(1008), random(250, 1008)), _layer_norm_input,
                                      _plain_norm_input, 2e-2),
    "layer_norm_backward_weight": Case(_floats(45, 1008), _layer_norm_weight, lambda *given: tuple(one.sum(0) for one in given), 1e-2),
    **{name: _matmul(name) for name in ("matmul_64x64x32", "matmul_128x128x64", "matmul_128x256x64", "matmul_128x128x64_two_ctas")},
    **{name: _descriptor_matmul(name) for name in ("descriptor_matmul", "warp_specialized_matmul")},
    "grouped_matmul": Case(lambda: tuple(random(length) for length in _starts()[1][:2]), _grouped_matmul, _plain_grouped_matmul, 5e-2),
    "attention_forward": Case(lambda: _attention_inputs()[:3], attention_parts, plain_attention, 1e-2),
    "attention_backward_delta": Case(lambda: _attention_inputs()[2:4], attention_delta,
                                     lambda out, dout: (out.astype(jnp.float32) * dout.astype(jnp.float32)).sum(2), 1e-3),
    "attention_backward_keys": Case(_attention_inputs, attention_keys, lambda *given: _plain_gradients(*given)[1:], 2e-2),
    "attention_backward_queries": Case(_attention_inputs, attention_queries, lambda *given: _plain_gradients(*given)[0], 2e-2),
    "reduce_atomic": Case(lambda: (jnp.asarray(_random.random(50_001, dtype=np.float32)),), _reduce, _plain_reduce, 1e-3),
    "quantize_int8": Case(lambda: (random(128, 4000, dtype=jnp.bfloat16),), _quantize, _plain_quantize, 2e-2),
    "rotary": _rotary("rotary", 1),
    "rotary_backward": _rotary("rotary_backward", -1),
    "cross_entropy": Case(_cross_entropy_inputs, _cross_entropy, _plain_cross_entropy, 1e-2),
    "zeroed output": Case(_floats(5000), lambda x, _: accumulate(x), lambda x, _: x),
    "descriptors of an argument and of an output": Case(lambda: (random(100, 72, dtype=jnp.float32),), double_tiles, lambda x: 2 * x),
    "scratch memory": Case(_floats(64, 256), descriptor_add, jnp.add),
    "dependent launch": Case(_floats(100_000), lambda x, y: add_after(add_after(x, y), y), lambda x, y: x + y + y),
    "cooperative grid": Case(lambda: (random(64 * 1024, dtype=jnp.float32),), sums_of_next,
                             lambda x: jnp.roll(x.reshape(64, 1024).sum(1), -1), 1e-3),
    "aliased output, argument kept": Case(_floats(5000), lambda x, given: (add_in_place(x, given), given), lambda x, given: (x + given, given)),
}

# Cases with tensor maps from the host: a wrong one may wait for ever.
DESCRIBED = ("descriptor_matmul", "warp_specialized_matmul", "descriptors of an argument and of an output")


def lacks(name):
    """Why this GPU cannot run it, or ""."""
    return INSTANCES[name].lacks(f"cuda:{capability or _own_architecture()}") if name in INSTANCES else ""


@functools.lru_cache(maxsize=None)
def _own_architecture():
    return str(jax.devices()[0].compute_capability).replace(".", "")
