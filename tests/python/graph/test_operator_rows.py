"""The operator table, row by row: every elementwise operator, of each type that it takes, by every compiler.

ElementwiseTest holds the interpreter against <cmath> for each row; here the compilers are held against the interpreter.
"""

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
        elif line.startswith("| `") and category in ELEMENTWISE:
            yield category, [cell.strip() for cell in line.strip("|").split("|")]


def numbers(type_, place):
    """An operand's: floats within and beyond [-1, 1], where functions end; no integer is 0, a shift beyond the type, or has too
    large a power."""
    random = np.random.default_rng(place)
    if type_ == "bool":
        return random.integers(0, 2, COUNT).astype(bool)
    if type_ in ("i32", "u32"):
        signs = random.choice([-1, 1], COUNT) if type_ == "i32" and place == 0 else 1
        return (signs * random.integers(1, 9, COUNT)).astype(TYPES[type_])
    floats = np.where(np.arange(COUNT) % 3, random.uniform(-1, 1, COUNT), random.uniform(-4, 4, COUNT)).astype(np.float32)
    floats[:4] = np.nan, np.inf, -np.inf, 0.5
    return floats


class Row:
    """An operator on one type, for the runners of random_segments."""

    symbols = ()

    def __init__(self, category, cells, letter):
        self.operator = cells[0].strip("`")
        type_ = OTHER_TYPES.get((self.operator, TYPE_OF[letter]), TYPE_OF[letter])
        self.name = f"{self.operator} of {type_}"
        count = INPUT_COUNTS.get(self.operator) or (3 if "more" in cells[2] else int(cells[2].split()[-1]))
        types = ["bool" if self.operator == "Where" and place == 0 else type_ for place in range(count)]
        self.inputs = [numbers(each, place) for place, each in enumerate(types)]
        self.type = "bool" if category in ("Comparison", "Logical") else type_
        values = [{"name": f"x{place}", "type": each, "shape": [COUNT], "role": "input"} for place, each in enumerate(types)]
        values.append({"name": "y", "type": self.type, "shape": [COUNT], "role": "output"})
        operation = {"op": self.operator, "inputs": [f"x{place}" for place in range(count)], "outputs": ["y"],
                     "attributes": ATTRIBUTES.get(self.operator, {})}
        self._segment = {"kiln_segment": 1, "name": "row", "symbols": [], "values": values, "operations": [operation]}

    def request(self):
        buffers = {f"x{place}": array.tobytes().hex() for place, array in enumerate(self.inputs)}
        return {"segment": self._segment, "symbols": [], "buffers": {**buffers, "y": np.zeros(COUNT, TYPES[self.type]).tobytes().hex()}}

    def with_role(self, role):
        return [Named(value["name"]) for value in self._segment["values"] if value.get("role") == role]

    def difference(self, got, wanted):
        if isinstance(got, str) or isinstance(wanted, str):
            return f"{self.name}: {got}; {wanted}"
        got, wanted = (np.frombuffer(one["y"], TYPES[self.type]) for one in (got, wanted))
        rtol = 2e-5 if self.type == "f32" else 0
        with np.errstate(all="ignore"):
            wrong = np.flatnonzero(~np.isclose(got, wanted, rtol=rtol, atol=rtol / 10, equal_nan=True))
        return f"{self.name}: {wrong.size} wrong: {got[wrong[0]]} for {wanted[wrong[0]]}" if wrong.size else ""


@pytest.fixture(scope="module")
def table():
    """Each row with each of its types, and what the interpreter says."""
    made = [Row(category, cells, letter) for category, cells in rows() for letter in re.sub("[^bif]", "", cells[4])]
    return list(zip(made, COMPILERS["interpreter"](made, None), strict=True))


def test_the_table_has_rows_of_each_category(table):
    assert {category for category, _ in rows()} == set(ELEMENTWISE)
    assert len({row.operator for row, _ in table}) == len(list(rows())) >= 120
    constant = [row.name for row, wanted in table if isinstance(wanted, str) or len(set(np.frombuffer(wanted["y"], TYPES[row.type]))) == 1]
    assert constant == []


@pytest.mark.parametrize("compiler", [name for name in COMPILERS if name != "interpreter"])
def test_every_row_is_computed_by_every_compiler(table, compiler, tmp_path):
    results = COMPILERS[compiler]([row for row, _ in table], tmp_path)
    assert not [found for (row, wanted), got in zip(table, results, strict=True) if (found := row.difference(got, wanted))]
