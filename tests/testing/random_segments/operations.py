"""Random operations: each draws what it needs, applies one operator to a segment, and gives the result's tensors.

`pool` is a Pool (strategies.py). An operation that suits none of the pool's tensors gives nothing.
"""

import numpy as np
from hypothesis import strategies as st

from random_segments import elementwise, movements
from random_segments.element_types import FLOATS, dtype_of, is_tame
from random_segments.extents import ONE, Extent, product
from random_segments.segment import CURVES, MOVES, SUMS

# --- Elementwise ---


def unary(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_number)
    return [] if x is None else _unary(draw, pool, x)


def _unary(draw, pool, x):
    tables = [(elementwise.SIGNED, MOVES)]
    if x.is_float:
        tables += [(elementwise.CURVES, CURVES)] * 3 + [(elementwise.CUTS, MOVES)]
    table, accuracy = draw(st.sampled_from(tables))
    name, attributes, function = draw(st.sampled_from(table))
    # A function may cancel within itself, as Gelu does: it is right relative to its operand.
    scale = np.abs if accuracy == CURVES and name not in ("Exp", "Exp2", "Reciprocal") else None
    return pool.apply(name, [x], [(x.type, x.shape)], lambda a: [function(a)], accuracy, attributes, scale)


def binary(draw, pool):
    x = pool.choose(draw)
    tables = {
        "bool": [(elementwise.BOOL_PAIRS, MOVES)],
        "float": [(elementwise.FLOAT_PAIRS, CURVES), (elementwise.NUMBER_PAIRS, SUMS), (elementwise.EXACT_PAIRS, MOVES)],
        "integer": [(elementwise.INTEGER_PAIRS, MOVES), (elementwise.NUMBER_PAIRS, MOVES), (elementwise.EXACT_PAIRS, MOVES)],
    }
    table, accuracy = draw(st.sampled_from(tables["float" if x.is_float else "integer" if x.is_number else "bool"]))
    name, attributes, function = draw(st.sampled_from(table))
    return _broadcast(draw, pool, x, name, attributes, function, x.type, accuracy)


def comparison(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_number)
    if x is None:
        return []
    name, attributes, function = draw(st.sampled_from(elementwise.COMPARISONS))
    return _broadcast(draw, pool, x, name, attributes, function, "bool", MOVES)


def _broadcast(draw, pool, x, name, attributes, function, type_, accuracy):
    y = pool.partner(draw, x)
    shape = broadcast_shape(x.shape, y.shape)
    pair = [x, y] if draw(st.booleans()) else [y, x]
    scale = np.add if accuracy == SUMS else None
    return pool.apply(name, pair, [(type_, shape)], lambda a, b: [function(a, b)], accuracy, attributes, scale)


def broadcast_shape(one, other):
    rank = max(len(one), len(other))
    one, other = ((ONE,) * (rank - len(shape)) + tuple(shape) for shape in (one, other))
    return tuple(b if a == ONE else a for a, b in zip(one, other))


def where(draw, pool):
    x = pool.choose(draw)
    y = pool.partner(draw, x)
    shape = broadcast_shape(x.shape, y.shape)
    condition = pool.input(draw, "bool", [extent if draw(st.booleans()) else ONE for extent in shape])
    return pool.apply("Where", [condition, x, y], [(x.type, shape)], lambda c, a, b: [np.where(c, a, b)], MOVES)


def cast(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float or not tensor.is_number or tensor.type in ("i32", "i8"))
    if x is None:
        return []
    to = ["f32", "f64", "f16", "bf16"]
    if not x.is_float or (np.all(np.isfinite(x.array)) and np.all(np.abs(x.array) < 100)):
        to += ["i32", "i64"]
    type_ = draw(st.sampled_from(to))
    convert = (lambda a: np.trunc(a).astype(dtype_of(type_))) if x.is_float and type_ not in FLOATS else (lambda a: a.astype(dtype_of(type_)))
    return pool.apply("Cast", [x], [(type_, x.shape)], lambda a: [convert(a)], SUMS, {"to": type_})


# --- Products ---


def matmul(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1)
    if x is None:
        return []
    inner, columns = x.shape[-1], pool.extent(draw)
    batch = [extent if draw(st.booleans()) else ONE for extent in x.shape[:-2]]
    shape = [*batch, inner, columns] if draw(st.booleans()) else [inner, columns]
    y = pool.input(draw, x.type, shape, is_constant=draw(st.booleans()))
    given = [*x.shape[:-1], columns]
    return pool.apply("MatMul", [x, y], [(x.type, given)], lambda a, b: [np.matmul(a, b)], SUMS, scale=np.matmul)


def gemm(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank == 2)
    if x is None:
        return []
    flips = {"transA": draw(st.integers(0, 1)), "transB": draw(st.integers(0, 1))}
    (rows, inner), columns = x.shape[::-1] if flips["transA"] else x.shape, pool.extent(draw)
    y = pool.input(draw, x.type, [columns, inner] if flips["transB"] else [inner, columns])
    bias = pool.input(draw, x.type, draw(st.sampled_from([(columns,), (ONE, columns), (rows, ONE)])))

    def compute(a, b, c):
        return [(a.T if flips["transA"] else a) @ (b.T if flips["transB"] else b) * 0.5 + c * 2.0]

    return pool.apply("Gemm", [x, y, bias], [(x.type, (rows, columns))], compute, SUMS, {"alpha": 0.5, "beta": 2.0, **flips},
                      lambda a, b, c: compute(a, b, c)[0])


def convolution(draw, pool):
    """Of one dimension; it has to have a batch and channels."""
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank == 3 and tensor.shape[1].is_fixed and tensor.array.size > 0)
    if x is None:
        return []
    kernel, pads, filters = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    channels, length = x.shape[1].value, x.extents[2] + 2 * pads - kernel + 1
    if length < 1:
        return []
    w = pool.input(draw, x.type, [Extent.fixed(filters), x.shape[1], Extent.fixed(kernel)], is_constant=True)

    def compute(a, weights):
        wide = np.pad(a, [(0, 0), (0, 0), (pads, pads)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, axis=2)
        return [np.einsum("nclk,fck->nfl", windows, weights)]

    assert w.extents == (filters, channels, kernel)
    shape = [x.shape[0], Extent.fixed(filters), x.shape[2] + (2 * pads - kernel + 1)]
    return pool.apply("Conv", [x, w], [(x.type, shape)], compute, SUMS, {"kernel_shape": [kernel], "pads": [pads, pads]},
                      lambda a, weights: compute(a, weights)[0])


def attention(draw, pool):
    """Of four dimensions: batch, heads, rows, and the size of a head."""
    q = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank == 4 and tensor.array.size > 0)
    if q is None:
        return []
    batch, heads, _, size = q.shape
    length = pool.extent(draw)
    if length.value == 0:
        return []
    k, v = (_computed(draw, pool, pool.input(draw, q.type, [batch, heads, length, width])) for width in (size, pool.extent(draw)))
    is_causal = draw(st.booleans())

    def compute(a, b, c):
        scores = a @ np.swapaxes(b, 2, 3) / np.sqrt(a.shape[3])
        if is_causal:
            scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        return [powers / powers.sum(axis=3, keepdims=True) @ c]

    def scale(a, b, c):
        """A rounded score moves every weight by its own size."""
        return (1 + (a @ np.swapaxes(b, 2, 3)).max(axis=(2, 3), keepdims=True)) * c.max(axis=2, keepdims=True)

    return pool.apply("Attention", [q, k, v], [(q.type, (*q.shape[:3], v.shape[3]))], compute, CURVES, {"is_causal": int(is_causal)}, scale)


def _computed(draw, pool, x):
    """The tensor, or what some elementwise operations make of it."""
    for _ in range(draw(st.integers(0, 2))):
        (y,) = _unary(draw, pool, x)
        if not is_tame(y.array, y.type):
            break
        x = y
    return x


def max_pool(draw, pool):
    """Of one dimension."""
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank == 3 and tensor.array.size > 0)
    if x is None:
        return []
    kernel = draw(st.integers(1, 3))
    if x.extents[2] < kernel or not x.shape[2].is_fixed:  # a symbol may be smaller
        return []
    shape = [*x.shape[:2], x.shape[2] + (1 - kernel)]
    return pool.apply("MaxPool", [x], [(x.type, shape)], lambda a: [np.lib.stride_tricks.sliding_window_view(a, kernel, axis=2).max(axis=3)],
                      MOVES, {"kernel_shape": [kernel]})


# --- Along axes ---

_REDUCTIONS = {
    "ReduceSum": (np.sum, SUMS),
    "ReduceMean": (np.mean, SUMS),
    "ReduceMax": (np.max, MOVES),
    "ReduceMin": (np.min, MOVES),
    "ReduceProd": (np.prod, CURVES),
    "ReduceL1": (lambda a, axis, keepdims: np.sum(np.abs(a), axis=axis, keepdims=keepdims), SUMS),
    "ReduceL2": (lambda a, axis, keepdims: np.sqrt(np.sum(a * a, axis=axis, keepdims=keepdims)), CURVES),
    "ReduceSumSquare": (lambda a, axis, keepdims: np.sum(a * a, axis=axis, keepdims=keepdims), SUMS),
    "ReduceLogSumExp": (lambda a, axis, keepdims: np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims)), CURVES),
}
# More of them leave a type's range on the way to a product within it.
_FACTORS_MAX = 8


def reduction(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    name = draw(st.sampled_from(sorted(_REDUCTIONS)))
    axes = sorted(draw(st.sets(st.integers(0, x.rank - 1), min_size=1)))
    keeps = draw(st.booleans())
    if name == "ReduceProd" and product(x.shape[axis] for axis in axes).value > _FACTORS_MAX:
        return []
    function, accuracy = _REDUCTIONS[name]
    shape = [ONE if axis in axes else extent for axis, extent in enumerate(x.shape) if keeps or axis not in axes]

    def compute(a):
        return [function(a, axis=tuple(axes), keepdims=keeps)]

    scale = None if accuracy == MOVES else (lambda a: compute(a)[0])
    written = [axis - x.rank if draw(st.booleans()) else axis for axis in axes]
    return pool.apply(name, [x], [(x.type, shape)], compute, accuracy, {"axes": written, "keepdims": int(keeps)}, scale)


def arg_extreme(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_number and tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    name, function = draw(st.sampled_from([("ArgMax", np.argmax), ("ArgMin", np.argmin)]))
    axis = draw(st.integers(0, x.rank - 1))
    shape = [ONE if number == axis else extent for number, extent in enumerate(x.shape)]
    return pool.apply(name, [x], [("i64", shape)], lambda a: [function(a, axis=axis, keepdims=True)], MOVES, {"axis": axis})


def softmax(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    name = draw(st.sampled_from(["Softmax", "LogSoftmax"]))

    def compute(a):
        shifted = a - a.max(axis=axis, keepdims=True)
        powers = np.exp(shifted)
        sums = powers.sum(axis=axis, keepdims=True)
        return [powers / sums if name == "Softmax" else shifted - np.log(sums)]

    return pool.apply(name, [x], [(x.type, x.shape)], compute, CURVES, {"axis": axis}, lambda a: a if name == "LogSoftmax" else 0 * a)


def layer_normalization(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    scale = pool.input(draw, x.type, [x.shape[-1]])
    if draw(st.booleans()):

        def root_mean_square(a, s):
            return [a / np.sqrt((a * a).mean(axis=-1, keepdims=True) + 0.01) * s]

        return pool.apply("RMSNormalization", [x, scale], [(x.type, x.shape)], root_mean_square, CURVES, {"epsilon": 0.01})
    bias = pool.input(draw, x.type, [x.shape[-1]])

    def compute(a, s, b):
        centred = a - a.mean(axis=-1, keepdims=True)
        return [centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 0.01) * s + b]

    return pool.apply("LayerNormalization", [x, scale, bias], [(x.type, x.shape)], compute, CURVES, {"epsilon": 0.01},
                      lambda a, s, b: 10 * a.max(axis=-1, keepdims=True) * s + b)


def running_sum(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    number = pool.constant("i64", [], np.array(axis))
    return pool.apply("CumSum", [x, number], [(x.type, x.shape)], lambda a, _: [np.cumsum(a, axis=axis)], SUMS,
                      scale=lambda a, _: np.cumsum(a, axis=axis))


ALL = [
    unary, unary, unary, binary, binary, binary, comparison, where, cast, matmul, matmul, gemm, convolution, attention, max_pool, reduction, reduction, arg_extreme, softmax,
    layer_normalization, running_sum, movements.transpose, movements.reshape, movements.expand, movements.slice_, movements.split,
    movements.concat, movements.pad, movements.tile, movements.gather,
    movements.gather_elements, movements.scatter_elements, movements.reverse, movements.roll, movements.triangle
]

AROUND_ATTENTION = [unary, unary, binary, cast, attention, attention, attention, movements.transpose]
