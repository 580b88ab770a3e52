"""Values in memory: row-major, permuted, with gaps, or with elements that repeat."""

import numpy as np
from hypothesis import strategies as st

from random_segments.element_types import from_memory, memory_dtype, to_memory
from random_segments.extents import Extent, row_major, values

_FILLER = 0xA5  # in gaps


@st.composite
def strides(draw, shape, *, repeats):
    """None for row-major. repeats: some dimensions may have the stride 0."""
    kind = draw(st.sampled_from(["row-major", "row-major", "permuted", "gaps", "repeated"]))
    if kind == "row-major" or not shape:
        return None
    if kind == "repeated" and not repeats:
        kind = "gaps"
    order = draw(st.permutations(range(len(shape)))) if kind == "permuted" else range(len(shape))
    made = [Extent.fixed(0)] * len(shape)
    room = Extent.fixed(1)
    for axis in reversed(order):
        made[axis] = room
        room = room * shape[axis]
        if kind == "gaps":
            room = room * draw(st.integers(1, 2)) + draw(st.integers(0, 3))
    if kind == "repeated":
        repeated = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
        # The others close ranks.
        kept = row_major([Extent.fixed(1) if axis in repeated else extent for axis, extent in enumerate(shape)])
        made = [Extent.fixed(0) if axis in repeated else kept[axis] for axis in range(len(shape))]
    return tuple(made)


class Memory:
    """The elements of one value; those in gaps have a pattern that nobody may write over."""

    def __init__(self, type_, shape, strides_):
        self._type = type_
        self._shape = values(shape)
        self._strides = values(row_major(shape) if strides_ is None else strides_)
        last = sum((extent - 1) * stride for extent, stride in zip(self._shape, self._strides))
        count = 0 if 0 in self._shape else last + 1
        dtype = memory_dtype(type_)
        self.elements = np.full(count * dtype.itemsize, _FILLER, np.uint8).view(dtype)

    def _view(self, elements):
        steps = [stride * elements.itemsize for stride in self._strides]
        return np.lib.stride_tricks.as_strided(elements, self._shape, steps) if elements.size else np.zeros(self._shape, elements.dtype)

    def fill(self, array):
        if self.elements.size:
            self._view(self.elements)[...] = to_memory(array, self._type)
        return self

    def laid_out(self, array, elsewhere):
        """Such numbers for each element of the buffer, in f64; `elsewhere` in gaps."""
        numbers = np.full(self.elements.size, elsewhere, np.float64)
        if numbers.size:
            self._view(numbers)[...] = array
        return numbers

    def read(self, content):
        """The value of such a buffer, given as bytes."""
        elements = np.frombuffer(content, self.elements.dtype)
        assert elements.size == self.elements.size
        return from_memory(self._view(elements), self._type)

    def has_written_gaps(self, content):
        """Whether a buffer that began as this one, unfilled, has changed between its elements."""
        elements = np.frombuffer(bytearray(content), self.elements.dtype)
        if not elements.size:
            return False
        self._view(elements)[...] = self._view(self.elements)
        return elements.tobytes() != self.elements.tobytes()

    def read_back(self):
        return from_memory(self._view(self.elements), self._type)


