"""The operator table, row by row: every operator by every compiler.

Elementwise operators have a case of each type that they take, and those that ONNX has no node test of a case of their own. Unit tests
hold the interpreter against <cmath> and numbers by hand; here the compilers are held against the interpreter.
"""

import base64
import pathlib
import re

import numpy as np
import pytest

from onnx_nodes.cases import TYPES, Named
from onnx_nodes.compilers import COMPILERS
from places import ROOT

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

# Printed from the table: test_the_page_of_operators_is_that_of_the_table.
PAGE = ROOT / "docs" / "graph-operators.md"
NO_OPERATORS = ("Types", "Unsupported")
ELEMENTWISE = ("Unary", "Binary", "Comparison", "Logical", "Ternary", "Variadic", "Identity")
TYPE_OF = {"b": "bool", "i": "i32", "f": "f32"}
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}}
INPUT_COUNTS = {"Dropout": 1}  # the others make it train
# BitShift is for unsigned integers.
OTHER_TYPES = {("BitShift", "i32"): "u32"}
COUNT = 77  # no power of two


def rows():
    """Pairs of category and cells."""
    category = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            category = line[3:]
        elif line.startswith("| `") and category not in NO_OPERATORS:
            yield category, [cell.strip() for cell in line.strip("|").split("|")]


def numbers(type_, place, shape=(COUNT,)):
    """An operand's: floats within and beyond [-1, 1], where functions end; no integer is 0, a shift beyond the type, or has too
    large a power."""
    random = np.random.default_rng(place)
    if type_ == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if type_ in ("i32", "u32"):
        signs = random.choice([-1, 1], shape) if type_ == "i32" and place == 0 else 1
        return (signs * random.integers(1, 9, shape)).astype(TYPES[type_])
    return np.where(random.integers(0, 3, shape), random.uniform(-1, 1, shape), random.uniform(-4, 4, shape)).astype(np.float32)


def with_special(floats):
    floats[:4] = np.nan, np.inf, -np.inf, 0.5
    return floats


class Row:
    """An operator on some inputs, for the runners of random_segments."""

    symbols = ()

    def __init__(self, operator, inputs, outputs, attributes=None, constants=()):
        """inputs: arrays, those with a place in `constants` known to the plan. outputs: pairs of type and shape."""
        self.operator, self.outputs = operator, {f"y{place}": output for place, output in enumerate(outputs)}
        self.name = f"{operator} of {inputs[0].dtype}"
        self._inputs = {f"x{place}": array for place, array in enumerate(inputs)}
        values = []
        for place, (name, array) in enumerate(self._inputs.items()):
            data = {"role": "constant", "data": base64.b64encode(array.tobytes()).decode()} if place in constants else {"role": "input"}
            values.append({"name": name, "type": array.dtype.name, "shape": list(array.shape), **data})
        values += [{"name": name, "type": type_, "shape": list(shape), "role": "output"} for name, (type_, shape) in self.outputs.items()]
        operation = {"op": operator, "inputs": list(self._inputs), "outputs": list(self.outputs), "attributes": attributes or {}}
        self._segment = {"kiln_segment": 1, "name": "row", "symbols": [], "values": values, "operations": [operation]}

    def request(self):
        buffers = {name: array.tobytes().hex() for name, array in self._inputs.items()}
        buffers |= {name: np.zeros(shape, TYPES[type_]).tobytes().hex() for name, (type_, shape) in self.outputs.items()}
        return {"segment": self._segment, "symbols": [], "buffers": buffers}

    def with_role(self, role):
        return [Named(value["name"]) for value in self._segment["values"] if value.get("role") == role]

    def arrays(self, answer):
        return {name: np.frombuffer(answer[name], TYPES[type_]) for name, (type_, _) in self.outputs.items()}

    def differences(self, got, wanted):
        if isinstance(got, str) or isinstance(wanted, str):
            return [f"{self.name}: {got}; {wanted}"]
        return [f"{self.name}: {found}" for name in self.outputs if (found := _difference(self.arrays(got)[name], self.arrays(wanted)[name]))]


def _difference(got, wanted):
    rtol = 2e-5 if wanted.dtype == np.float32 else 0
    with np.errstate(all="ignore"):
        wrong = np.flatnonzero(~np.isclose(got, wanted, rtol=rtol, atol=rtol / 10, equal_nan=True))
    return f"{wrong.size} wrong: {got[wrong[0]]} for {wanted[wrong[0]]}" if wrong.size else ""


def elementwise(category, cells, letter):
    operator = cells[0].strip("`")
    type_ = OTHER_TYPES.get((operator, TYPE_OF[letter]), TYPE_OF[letter])
    count = INPUT_COUNTS.get(operator) or (3 if "more" in cells[2] else int(cells[2].split()[-1]))
    inputs = [numbers("bool" if operator == "Where" and place == 0 else type_, place) for place in range(count)]
    inputs = [with_special(array) if array.dtype == np.float32 else array for array in inputs]
    result = "bool" if category in ("Comparison", "Logical") else type_
    return Row(operator, inputs, [(result, (COUNT,))], ATTRIBUTES.get(operator))


def own():
    """Operators that ONNX has no node test of."""
    f32 = [numbers("f32", place, (5, 8)) for place in range(3)]
    image, sequence = numbers("f32", 0, (2, 8, 3, 5)), [numbers("f32", place, (2, 3, 16)) for place in range(3)]
    shared, gains = [numbers("f32", place, (2, 3, 8)) for place in (1, 2)], [numbers("f32", place, (16,)) for place in range(2)]
    keys, angles = numbers("f32", 0, (1, 2, 3, 4)), [numbers("f32", place, (8, 2)) for place in range(2)]

    def row(operator, inputs, *shapes, type_="f32", constants=(), **attributes):
        return Row(operator, inputs, [(type_, shape) for shape in shapes], attributes, constants)

    return [
        row("Fill", [np.array([3, 4]), np.float32(1.5).reshape(())], (3, 4), constants=(0,)),
        row("ZerosLike", f32[:1], (5, 8)),
        row("OnesLike", f32[:1], (5, 8)),
        row("FusedMatMul", f32[:2], (5, 5), transB=1, alpha=0.5),
        row("Linear", [*f32[:2], gains[0][:5]], (5, 5)),
        row("ReduceAll", [numbers("bool", 0, (9, 2))], (9,), type_="bool", axes=[1], keepdims=0),
        row("ReduceAny", [numbers("bool", 0, (9, 2))], (9,), type_="bool", axes=[1], keepdims=0),
        row("GlobalLpPool", [image], (2, 8, 1, 1), p=2),
        row("GroupQueryAttention", [sequence[0], *shared], (2, 3, 16), num_heads=4, kv_num_heads=2),
        row("MultiHeadAttention", sequence, (2, 3, 16), num_heads=2),
        row("Unstack", f32[:1], *[(8,)] * 5, axis=0),
        row("PixelShuffle", [image], (2, 2, 6, 10), upscale_factor=2),
        row("Stack", f32[:2], (5, 2, 8), axis=1),
        row("Embedding", [f32[0], np.array([[2, 0, 4], [1, 1, 3]])], (2, 3, 8)),
        row("Triu", f32[:1], (5, 8), k=1),
        row("Tril", f32[:1], (5, 8), k=-1),
        row("Reverse", f32[:1], (5, 8), axes=[1]),
        row("Roll", f32[:1], (5, 8), shifts=[3], axes=[1]),
        row("Im2Col", [image], (2, 32, 8), kernel_shape=[2, 2]),
        row("GeGLU", f32[:1], (5, 4)),
        row("GLU", f32[:1], (5, 4)),
        row("SkipLayerNormalization", [*sequence[:2], *gains], (2, 3, 16)),
        row("SkipRMSNormalization", [*sequence[:2], gains[0]], (2, 3, 16)),
        row("RotaryCache", [keys, *angles, np.array([[1, 7, 2]]), numbers("f32", 1, (1, 2, 6, 4))], (1, 2, 3, 4), (1, 2, 6, 4)),
    ]


def every():
    made = [elementwise(category, cells, letter) for category, cells in rows() if category in ELEMENTWISE
            for letter in re.sub("[^bif]", "", cells[4])]
    return made + own()


@pytest.fixture(scope="module")
def table():
    """Each row with what the interpreter says."""
    made = every()
    return list(zip(made, COMPILERS["interpreter"](made, None), strict=True))


def test_cases_have_results_that_differ(table):
    """Nothing that is right whatever was computed."""
    assert not [(row.name, answer) for row, answer in table if isinstance(answer, str)]
    constant = {row.operator for row, answer in table for array in row.arrays(answer).values() if len(set(array)) == 1}
    assert constant == {"Fill", "ZerosLike", "OnesLike"}


# The optimiser of Intel's runtime takes two thirds of the time.
@pytest.mark.parametrize("compiler, options", [
    *(pytest.param(name, ("-cl-opt-disable",) if name == "opencl" else (), id=name) for name in COMPILERS if name != "interpreter"),
    pytest.param("opencl", (), id="opencl-optimised", marks=pytest.mark.slow),
])
def test_every_row_is_computed_by_every_compiler(table, compiler, options, tmp_path):
    results = COMPILERS[compiler]([row for row, _ in table], tmp_path, *options)
    assert not [found for (row, wanted), got in zip(table, results, strict=True) for found in row.differences(got, wanted)]
