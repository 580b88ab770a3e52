"""Holds results against NumPy's.

The tolerance is measured, element by element: NumPy computes the segment again and again, each time with every rounding moved by two steps up
or down. A result may be off by 8 times the largest difference that this makes, and by 8 steps. Where such a step turns a comparison, or an
element from a number into none, nothing is held against the element.
"""

import numpy as np

from random_segments.element_types import FLOATS, SMALLEST, STEPS

_RUNS = 6
_FACTOR = 8


class Tolerances:

    def __init__(self, segment):
        random = np.random.default_rng(0)
        self._segment = segment
        self._runs = [segment.disturbed(random) for _ in range(_RUNS)]

    def differences(self, buffers):
        """What is wrong with the outputs, given as bytes by name."""
        return [line for tensor in self._segment.with_role("output") for line in self._of(tensor, buffers[tensor.name])]

    def _of(self, tensor, content):
        if tensor.memory().has_written_gaps(content):
            yield f"{tensor.name}: an element outside the tensor was written"
        seen = tensor.memory().read(content)
        with np.errstate(all="ignore"):
            wrong = self._is_wrong(tensor, seen)
        for place in np.argwhere(wrong)[:3]:
            at = tuple(map(int, place))
            yield f"{tensor.name}{list(at)}: {seen[at]} for {tensor.array[at]} ({tensor.type}), {int(wrong.sum())} of {wrong.size} are wrong"

    def _is_wrong(self, tensor, seen):
        wanted, allowed = tensor.array, self.allowed(tensor)
        is_same = seen == wanted
        if tensor.type in FLOATS:
            is_same |= (np.abs(seen - wanted) <= allowed) | (np.isnan(seen) & np.isnan(wanted))
        return np.isfinite(allowed) & ~is_same

    def allowed(self, tensor):
        """How far each element may be off; infinitely where nothing is held against it."""
        wanted, runs = tensor.array, [run[tensor.name] for run in self._runs]
        if tensor.type not in FLOATS:
            return np.where(np.all([run == wanted for run in runs], axis=0), 0, np.inf)
        is_number = np.isfinite(wanted)
        with np.errstate(all="ignore"):
            spread = np.max([np.abs(run - wanted) for run in runs], axis=0)
            tolerance = _FACTOR * (spread + STEPS[tensor.type] * np.abs(wanted) + SMALLEST[tensor.type])
        is_sure = np.all([np.where(is_number, np.isfinite(run), (run == wanted) | (np.isnan(run) & np.isnan(wanted))) for run in runs], axis=0)
        return np.where(is_sure, np.where(is_number, tolerance, 0), np.inf)
