"""Random views and movements of elements, as operations.py has the rest."""

import numpy as np
from hypothesis import strategies as st

from random_segments.extents import ONE, Extent, product
from random_segments.segment import MOVES


def transpose(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1)
    if x is None:
        return []
    order = draw(st.permutations(range(x.rank)))
    return pool.apply("Transpose", [x], [(x.type, [x.shape[axis] for axis in order])], lambda a: [a.transpose(order)], MOVES,
                      {"perm": list(order)})


def reshape(draw, pool):
    """Joins neighbours, splits fixed dimensions, adds and removes those of one element."""
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank))
    kind = draw(st.sampled_from(["Flatten", "Unsqueeze", "Squeeze", "Reshape"]))
    if kind == "Flatten":
        shape, attributes = [product(x.shape[:axis]), product(x.shape[axis:])], {"axis": axis}
    elif kind == "Unsqueeze":
        shape, attributes = [*x.shape[:axis], ONE, *x.shape[axis:]], {"axes": [axis]}
    elif kind == "Squeeze":
        axes = [number for number, extent in enumerate(x.shape) if extent == ONE]
        shape, attributes = [extent for extent in x.shape if extent != ONE], {"axes": axes}
        if not axes:
            return []
    else:
        if sum(not extent.is_fixed for extent in x.shape) > 1:
            return []
        shape, attributes = _split(draw, x.shape)
    sizes = [extent.value for extent in shape]
    return pool.apply(kind, [x], [(x.type, shape)], lambda a: [a.reshape(sizes)], MOVES, attributes)


def _split(draw, shape):
    """The shape with each fixed dimension in two factors; one that is not fixed is written as -1."""
    factors = []
    for extent in shape:
        if not extent.is_fixed:
            factors.append(extent)
            continue
        factor = draw(st.sampled_from([number for number in range(1, extent.value + 1) if extent.value % number == 0]))
        factors += [Extent.fixed(factor), Extent.fixed(extent.value // factor)]
    return factors, {"shape": [extent.value if extent.is_fixed else -1 for extent in factors]}


def expand(draw, pool):
    x = pool.choose(draw, lambda tensor: ONE in tensor.shape)
    if x is None:
        return []
    shape = [Extent.fixed(draw(st.integers(1, 5))) if extent == ONE else extent for extent in x.shape]
    if not all(extent.is_fixed for extent in shape):
        return []
    sizes = [extent.value for extent in shape]
    return pool.apply("Expand", [x], [(x.type, shape)], lambda a: [np.broadcast_to(a, sizes)], MOVES, {"shape": sizes})


def slice_(draw, pool):
    x = pool.choose(draw, lambda tensor: any(extent.is_fixed and extent.value > 1 for extent in tensor.shape))
    if x is None:
        return []
    axis = draw(st.sampled_from([axis for axis, extent in enumerate(x.shape) if extent.is_fixed and extent.value > 1]))
    size = x.shape[axis].value
    start, end = sorted(draw(st.lists(st.integers(0, size), min_size=2, max_size=2)))
    step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
    if step < 0:
        start, end = min(end, size - 1), start - 1 if start else -size - 1
    places = np.arange(size)[start:None if end < -size else end:step] if step < 0 else np.arange(size)[start:end:step]
    shape = [*x.shape[:axis], Extent.fixed(len(places)), *x.shape[axis + 1:]]
    attributes = {"axes": [axis], "starts": [start], "ends": [end], "steps": [step]}
    return pool.apply("Slice", [x], [(x.type, shape)], lambda a: [np.take(a, places, axis=axis)], MOVES, attributes)


def split(draw, pool):
    x = pool.choose(draw, lambda tensor: any(extent.is_fixed and extent.value > 1 for extent in tensor.shape))
    if x is None:
        return []
    axis = draw(st.sampled_from([axis for axis, extent in enumerate(x.shape) if extent.is_fixed and extent.value > 1]))
    size = x.shape[axis].value
    cut = draw(st.integers(0, size))
    outputs = [(x.type, [*x.shape[:axis], Extent.fixed(part), *x.shape[axis + 1:]]) for part in (cut, size - cut)]
    return pool.apply("Split", [x], outputs, lambda a: np.split(a, [cut], axis=axis), MOVES, {"axis": axis, "split": [cut, size - cut]})


# --- Movement ---


def concat(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    others = []
    for _ in range(draw(st.integers(1, 3))):
        others.append(pool.input(draw, x.type, [*x.shape[:axis], pool.extent(draw), *x.shape[axis + 1:]]))
    whole = sum((tensor.shape[axis] for tensor in others), x.shape[axis])
    shape = [*x.shape[:axis], whole, *x.shape[axis + 1:]]
    return pool.apply("Concat", [x, *others], [(x.type, shape)], lambda *arrays: [np.concatenate(arrays, axis=axis)], MOVES, {"axis": axis})


def pad(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.is_float and tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    before, after = (draw(st.lists(st.integers(0, 2), min_size=x.rank, max_size=x.rank)) for _ in range(2))
    shape = [extent + low + high for extent, low, high in zip(x.shape, before, after)]
    widths = list(zip(before, after))
    return pool.apply("Pad", [x], [(x.type, shape)], lambda a: [np.pad(a, widths, constant_values=1.5)], MOVES,
                      {"pads": [*before, *after], "value": 1.5})


def tile(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1)
    if x is None:
        return []
    repeats = draw(st.lists(st.integers(1, 2), min_size=x.rank, max_size=x.rank))
    shape = [extent * count for extent, count in zip(x.shape, repeats)]
    return pool.apply("Tile", [x], [(x.type, shape)], lambda a: [np.tile(a, repeats)], MOVES, {"repeats": repeats})


def gather(draw, pool):
    x = pool.choose(draw, lambda tensor: any(extent.is_fixed and extent.value > 0 for extent in tensor.shape))
    if x is None:
        return []
    axis = draw(st.sampled_from([axis for axis, extent in enumerate(x.shape) if extent.is_fixed and extent.value > 0]))
    size = x.shape[axis].value
    shape = [pool.extent(draw) for _ in range(draw(st.integers(0, 2)))]
    indices = pool.input(draw, draw(st.sampled_from(["i32", "i64"])), shape, low=-size, end=size)
    given = [*x.shape[:axis], *shape, *x.shape[axis + 1:]]
    return pool.apply("Gather", [x, indices], [(x.type, given)], lambda a, i: [np.take(a, i, axis=axis)], MOVES, {"axis": axis})


def gather_elements(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    shape = [*x.shape[:axis], pool.extent(draw), *x.shape[axis + 1:]]
    indices = pool.input(draw, "i64", shape, low=0, end=x.extents[axis])
    return pool.apply("GatherElements", [x, indices], [(x.type, shape)], lambda a, i: [np.take_along_axis(a, i, axis=axis)], MOVES,
                      {"axis": axis})


def scatter_elements(draw, pool):
    """To places that differ within each row."""
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1 and tensor.array.size > 0 and tensor.shape[-1].is_fixed)
    if x is None:
        return []
    count = draw(st.integers(1, x.extents[-1]))
    places = np.broadcast_to(np.random.default_rng(count).permutation(x.extents[-1])[:count], (*x.extents[:-1], count))
    indices = pool.given("i64", [*x.shape[:-1], Extent.fixed(count)], places)
    updates = pool.input(draw, x.type, [*x.shape[:-1], Extent.fixed(count)])

    def compute(a, i, u):
        result = a.copy()
        np.put_along_axis(result, i, u, axis=-1)
        return [result]

    return pool.apply("ScatterElements", [x, indices, updates], [(x.type, x.shape)], compute, MOVES, {"axis": -1})


def reverse(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1)
    if x is None:
        return []
    axes = sorted(draw(st.sets(st.integers(0, x.rank - 1), min_size=1)))
    return pool.apply("Reverse", [x], [(x.type, x.shape)], lambda a: [np.flip(a, axes)], MOVES, {"axes": axes})


def roll(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 1 and tensor.array.size > 0)
    if x is None:
        return []
    axis, shift = draw(st.integers(0, x.rank - 1)), draw(st.integers(-5, 5))
    return pool.apply("Roll", [x], [(x.type, x.shape)], lambda a: [np.roll(a, shift, axis)], MOVES, {"axes": [axis], "shifts": [shift]})


def triangle(draw, pool):
    x = pool.choose(draw, lambda tensor: tensor.rank >= 2)
    if x is None:
        return []
    name, function = draw(st.sampled_from([("Triu", np.triu), ("Tril", np.tril)]))
    diagonal = draw(st.integers(-3, 3))
    return pool.apply(name, [x], [(x.type, x.shape)], lambda a: [function(a, diagonal)], MOVES, {"k": diagonal})
