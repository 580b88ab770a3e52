"""ONNX models with inputs and expected outputs, and what Kiln makes of the models."""

import base64
import dataclasses
import json
import math
import subprocess
import warnings

import ml_dtypes
import numpy as np
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases

from places import BINARIES

TYPES = {
    "bool": np.bool_, "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def packed(array):
    """The elements' bytes as memory has them: two elements of 4 bits in a byte, low bits first. NumPy has each in a byte."""
    if array.dtype.name not in ("int4", "uint4"):
        return array.tobytes()
    low_bits = np.append(array.astype(np.int8).astype(np.uint8).ravel() & 15, np.zeros(array.size % 2, np.uint8))
    return (low_bits[::2] | low_bits[1::2] << 4).tobytes()


def unpacked(content, kind, shape):
    """From packed bytes, an array of the type with this name."""
    if kind not in ("i4", "u4"):
        return np.frombuffer(content, TYPES[kind]).reshape(shape)
    pairs = np.frombuffer(content, np.uint8)
    low_bits = np.stack([pairs & 15, pairs >> 4], -1).ravel()[: math.prod(shape)].astype(np.int8)
    return np.where((low_bits > 7) & (kind == "i4"), low_bits - 16, low_bits).astype(TYPES[kind]).reshape(shape)


@dataclasses.dataclass
class Case:
    name: str
    model: onnx.ModelProto
    inputs: list
    outputs: list  # the expected ones
    rtol: float = 1e-3  # those of ONNX's own runner
    atol: float = 1e-7

    def has_tensors_alone(self):
        values = [*self.inputs, *self.outputs]
        return all(isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUSc" for value in values)

    def line(self):
        """What the tool onnx_segments reads."""
        inputs = {}
        for value, array in zip(self.model.graph.input, self.inputs, strict=True):
            inputs[value.name] = {"type": array.dtype.name, "shape": array.shape, "bytes": packed(array).hex()}
        outputs = [value.name for value in self.model.graph.output]
        return json.dumps({"name": self.name, "model": self.model.SerializeToString().hex(), "inputs": inputs, "outputs": outputs})


def node_tests():
    """By name. onnx computes them: this takes seconds."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for test in collected:
        ((inputs, outputs),) = test.data_sets
        inputs, outputs = ([_array(value) for value in data] for data in (inputs, outputs))
        found[test.name] = Case(test.name, test.model, inputs, outputs, test.rtol, test.atol)
    return found


def _array(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@dataclasses.dataclass
class Named:
    name: str


class CaseSegment:
    """A case as a segment, for the runners of random_segments."""

    def __init__(self, case, answer):
        self.case = case
        self.symbols = [(None, size) for size in answer["symbols"]]
        self._segment = answer["segment"]
        self.outputs = answer["outputs"]

    def known(self):
        """The bytes of inputs and constants, by name."""
        known = {value.name: packed(array) for value, array in zip(self.case.model.graph.input, self.case.inputs, strict=True)}
        return known | {value["name"]: base64.b64decode(value["data"]) for value in self._segment["values"] if "data" in value}

    def request(self):
        """What the tool run_segments reads."""
        buffers = {name: content.hex() for name, content in self.known().items()}
        return {"segment": self._segment, "symbols": [size for _, size in self.symbols], "buffers": buffers}

    def with_role(self, role):
        return [Named(value["name"]) for value in self._segment["values"] if value.get("role") == role]

    def difference(self, buffers, f16_rtol=0):
        """Empty, or how the outputs, bytes by name, differ from the expected ones by the rules of ONNX's runner. f16_rtol: for f16, where larger."""
        contents = self.known() | buffers
        for output, wanted in zip(self.outputs, self.case.outputs, strict=True):
            got = unpacked(contents[output["name"]], output["type"], output["shape"])
            if found := _difference(got, np.asarray(wanted), self.case, f16_rtol):
                return f"{output['name']}: {found}"
        return ""


def _difference(got, wanted, case, f16_rtol):
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)} for {wanted.dtype}{list(wanted.shape)}"
    rtol = max(case.rtol, {"bfloat16": 2**-6, "float16": f16_rtol}.get(got.dtype.name, 0))
    if got.dtype.kind not in "biu":
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = np.flatnonzero(~np.isclose(got, wanted, rtol=rtol, atol=case.atol, equal_nan=True))
    return f"{wrong.size} of {got.size} are wrong: {got.flat[wrong[0]]} for {wanted.flat[wrong[0]]}" if wrong.size else ""


def segments(cases):
    """Two dictionaries by name: the cases that Kiln plans whole, as CaseSegment; and why it does not plan the others."""
    planned, reasons = {}, {}
    tensors = []
    for case in cases:
        if case.has_tensors_alone():
            tensors.append(case)
        else:
            reasons[case.name] = "its inputs or outputs are no tensors of numbers"
    text = "".join(case.line() + "\n" for case in tensors)
    printed = subprocess.run([BINARIES / "onnx_segments"], input=text, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr[-4000:]
    for case, line in zip(tensors, printed.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        if "unsupported" in answer:
            reasons[case.name] = answer["unsupported"]
        else:
            planned[case.name] = CaseSegment(case, answer)
    return planned, reasons
