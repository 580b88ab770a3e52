"""A segment beside what NumPy computes for it, operation by operation."""

import base64
import json
from dataclasses import dataclass

import numpy as np

from random_segments.element_types import FLOATS, SMALLEST, STEPS, from_memory, rounded, to_memory
from random_segments.extents import values
from random_segments.layouts import Memory

# How a result may differ from NumPy's.
MOVES = "moves"  # not at all: elements are moved, compared or cut off
SUMS = "sums"  # by rounding, where the result has to be rounded
CURVES = "curves"  # by rounding, within the function and of its operand


@dataclass
class Tensor:
    name: str
    type: str
    shape: tuple
    array: np.ndarray
    role: str = ""
    strides: object = None

    @property
    def extents(self):
        return values(self.shape)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def is_number(self):
        return self.type != "bool"

    @property
    def is_float(self):
        return self.type in FLOATS

    def memory(self):
        return Memory(self.type, self.shape, self.strides)

    def json(self):
        described = {"name": self.name, "type": self.type, "shape": [extent.json() for extent in self.shape]}
        if self.strides is not None:
            described["strides"] = [stride.json() for stride in self.strides]
        if self.role:
            described["role"] = self.role
        if self.role == "constant":
            described["data"] = base64.b64encode(to_memory(self.array, self.type).tobytes()).decode()
        return described


@dataclass
class Operation:
    name: str
    inputs: list
    outputs: list
    attributes: dict
    compute: object  # of arrays: a list of arrays
    accuracy: str
    scale: object = None  # of absolute arrays: what a sum's rounding is relative to

    def json(self):
        described = {"op": self.name, "inputs": [tensor.name for tensor in self.inputs], "outputs": [tensor.name for tensor in self.outputs]}
        if self.attributes:
            described["attributes"] = self.attributes
        return described


class Segment:

    def __init__(self):
        self.symbols = []  # pairs: what JSON says of it, its number
        self.tensors = []
        self.operations = []

    def add(self, type_, shape, array, role="", strides=None):
        tensor = Tensor(f"t{len(self.tensors)}", type_, tuple(shape), array, role, strides)
        if role == "input":
            tensor.array = tensor.memory().fill(array).read_back()  # elements may repeat
        elif role == "constant":
            tensor.array = from_memory(to_memory(array, type_), type_)
        self.tensors.append(tensor)
        return tensor

    def apply(self, name, inputs, outputs, compute, accuracy, attributes=None, scale=None):
        """outputs: pairs of type and shape. The tensors."""
        with np.errstate(all="ignore"):
            arrays = [np.asarray(array) for array in compute(*(tensor.array for tensor in inputs))]
        made = []
        for (type_, shape), array in zip(outputs, arrays, strict=True):
            assert array.shape == values(shape), (name, attributes, array.shape, shape)
            made.append(self.add(type_, shape, rounded(array, type_)))
        self.operations.append(Operation(name, list(inputs), made, attributes or {}, compute, accuracy, scale))
        return made

    def with_role(self, role):
        return [tensor for tensor in self.tensors if tensor.role == role]

    def __repr__(self):
        """What Hypothesis prints of a failure: to be read by run_segments."""
        return json.dumps(self.request())

    def json(self):
        return {
            "kiln_segment": 1,
            "name": "random",
            "symbols": [symbol for symbol, _ in self.symbols],
            "values": [tensor.json() for tensor in self.tensors],
            "operations": [operation.json() for operation in self.operations],
        }

    def request(self, **config):
        """For run_segments."""
        buffers = {tensor.name: tensor.memory().fill(tensor.array).elements.tobytes().hex() for tensor in self.with_role("input")}
        buffers |= {tensor.name: to_memory(tensor.array, tensor.type).tobytes().hex() for tensor in self.with_role("constant")}
        buffers |= {tensor.name: tensor.memory().elements.tobytes().hex() for tensor in self.with_role("output")}
        return {"segment": self.json(), "symbols": [number for _, number in self.symbols], "buffers": buffers, **config}

    def disturbed(self, random):
        """Every tensor as a machine may compute it that rounds otherwise, by name."""
        arrays = {tensor.name: tensor.array for tensor in self.tensors}
        for operation in self.operations:
            for tensor, array in zip(operation.outputs, _disturbed(operation, arrays, random), strict=True):
                arrays[tensor.name] = rounded(array, tensor.type)
        return arrays


def _disturbed(operation, arrays, random):
    given = [arrays[tensor.name] for tensor in operation.inputs]
    with np.errstate(all="ignore"):
        if operation.accuracy == CURVES:
            given = [_moved(array, np.abs(array), tensor.type, random) for array, tensor in zip(given, operation.inputs)]
        results = operation.compute(*given)
        if operation.accuracy == MOVES:
            return results
        moved = []
        for tensor, result in zip(operation.outputs, results, strict=True):
            size = np.abs(result)
            if operation.scale is not None:
                size = np.maximum(size, operation.scale(*map(np.abs, given)))
            result = np.asarray(result)
            noisy = _moved(result, size, tensor.type, random)
            is_exact = operation.accuracy == SUMS and tensor.type != "f64" and (rounded(result, tensor.type) == result)
            moved.append(np.where(is_exact, result, noisy))
        return moved


def _moved(array, size, type_, random):
    """By two steps of its type, up or down."""
    if type_ not in FLOATS:
        return array
    step = np.where(size > 0, np.maximum(STEPS[type_] * size, SMALLEST[type_]), 0)
    return array + 2 * step * random.choice([-1.0, 1.0], np.shape(array))
