"""Hypothesis's strategy for segments: up to 30 operations on tensors of all layouts, with 0, 1, primes and 2^k±1 among the dimensions."""

import numpy as np
from hypothesis import strategies as st

from random_segments import layouts, operations
from random_segments.element_types import FLOATS, dtype_of, is_tame
from random_segments.extents import ONE, Extent, product
from random_segments.segment import Segment

OPERATIONS_MAX = 30
_ELEMENTS_MAX = 600
_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 0, 0)
_TYPES = ("f32", "f32", "f32", "f64", "f16", "bf16", "i32", "i64", "bool")


class Pool:
    """The tensors that further operations may read."""

    def __init__(self, segment, extents):
        self.segment = segment
        self._extents = extents
        self._tensors = []

    def extent(self, draw):
        return draw(st.sampled_from(self._extents))

    def choose(self, draw, suits=lambda tensor: True):
        found = [tensor for tensor in self._tensors if suits(tensor)]
        # Rather a late one, so that chains grow.
        return found[-1 - min(draw(st.integers(0, len(found) - 1)), draw(st.integers(0, len(found) - 1)))] if found else None

    def input(self, draw, type_, shape, *, is_constant=False, low=-4, end=5):
        """A further input, whose elements are multiples of 1/8, or integers."""
        random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        sizes = [extent.value for extent in shape]
        if type_ in FLOATS:
            array = random.integers(8 * low, 8 * end, sizes) / 8
        else:
            array = random.integers(low, end, sizes) if type_ != "bool" else random.integers(0, 2, sizes)
        array = array.astype(dtype_of(type_))
        if is_constant and all(extent.is_fixed for extent in shape):
            return self.constant(type_, shape, array)
        tensor = self.segment.add(type_, shape, array, "input", draw(layouts.strides(tuple(shape), repeats=True)))
        self._tensors.append(tensor)
        return tensor

    def given(self, type_, shape, array):
        """A further input with these elements, which no other operation reads."""
        return self.segment.add(type_, shape, array, "input")

    def constant(self, type_, shape, array):
        return self.segment.add(type_, shape, array, "constant")

    def partner(self, draw, x):
        """A tensor of the same type that can be broadcast to this one, or this one to it."""

        def suits(tensor):
            pairs = zip(reversed(tensor.shape), reversed(x.shape))
            return tensor.type == x.type and all(a == b or ONE in (a, b) for a, b in pairs) and (
                product(operations.broadcast_shape(tensor.shape, x.shape)).value <= _ELEMENTS_MAX)

        if draw(st.booleans()) and (found := self.choose(draw, suits)) is not None:
            return found
        kept = draw(st.integers(0, x.rank))
        shape = [extent if draw(st.booleans()) else ONE for extent in x.shape[kept:]]
        return self.input(draw, x.type, shape, is_constant=draw(st.booleans()))

    def apply(self, *arguments, **scale):
        tensors = self.segment.apply(*arguments, **scale)
        for tensor in tensors:
            if tensor.array.size <= _ELEMENTS_MAX and tensor.rank <= 5 and is_tame(tensor.array, tensor.type):
                self._tensors.append(tensor)
        return tensors


@st.composite
def segments(draw, operations_max=OPERATIONS_MAX, around_attention=False):
    """around_attention: of tensors of four dimensions, and operations that stand before and behind attention."""
    segment = Segment()
    extents = [Extent.fixed(number) for number in draw(st.lists(st.sampled_from(_EXTENTS), min_size=2, max_size=4))]
    for name in ("batch", "length")[:draw(st.integers(0, 2))]:
        number = draw(st.sampled_from(_EXTENTS[1:]))
        multiple = draw(st.sampled_from([factor for factor in (1, 2, 16) if number % factor == 0]))
        described = {"name": name, "min": 0, "max": 64, "typical": draw(st.sampled_from([16, 64])), "multiple_of": multiple}
        segment.symbols.append((described, number))
        extents.append(Extent.symbol(name, number))
    pool = Pool(segment, extents)
    for _ in range(draw(st.integers(1, 3))):
        rank = 4 if around_attention else draw(st.integers(0, 4))
        shape = [pool.extent(draw) for _ in range(rank)]
        while product(shape).value > _ELEMENTS_MAX:
            shape.pop()
        shape = [ONE] * (rank - len(shape) if around_attention else 0) + shape
        pool.input(draw, draw(st.sampled_from(FLOATS if around_attention else _TYPES)), shape)
    choices = operations.AROUND_ATTENTION if around_attention else operations.ALL
    for _ in range(draw(st.integers(1, operations_max))):
        draw(st.sampled_from(choices))(draw, pool)
    _choose_outputs(draw, segment)
    return segment


def _choose_outputs(draw, segment):
    """What nobody reads, and some more."""
    read = {tensor.name for operation in segment.operations for tensor in operation.inputs}
    for operation in segment.operations:
        for tensor in operation.outputs:
            if tensor.name not in read or draw(st.integers(0, 4)) == 0:
                tensor.role = "output"
                tensor.strides = draw(layouts.strides(tensor.shape, repeats=False))
    kept = read | {tensor.name for tensor in segment.with_role("output")}
    segment.tensors = [tensor for tensor in segment.tensors if tensor.name in kept]
