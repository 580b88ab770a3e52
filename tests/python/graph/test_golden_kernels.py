"""What the front end writes for a few segments, byte for byte: their texts are in golden_kernels/, to be read in a review.

Where other kernels are wanted, raise kPlanKeyVersion in client/graph/compile/plan_key.cc, and write the files anew by
`KILN_TEST_WRITE_GOLDEN_KERNELS=1`.
"""

import json
import os
import pathlib
import subprocess

import pytest

from places import BINARIES

FOLDER = pathlib.Path(__file__).parent / "golden_kernels"
ENDINGS = {"ptx": "ptx", "triton": "ttir", "cuda": "cu", "opencl": "cl"}
ROWS = {"name": "rows", "min": 1, "max": 4096, "typical": 512, "multiple_of": 16}
# Operators after each other, the first of x and w; its shapes, where the first dimension is `rows`.
SEGMENTS = {
    "chain": (("Add", "Sigmoid", "Sqrt"), "f32", ["rows", 48], [48], ["rows", 48]),
    "softmax": (("Mul", "Softmax"), "f16", ["rows", 512], [1], ["rows", 512]),
    "product": (("MatMul", "Relu"), "f16", ["rows", 64], [64, 32], ["rows", 32]),
}
# Templates have no loops.
CASES = [(name, back_end) for name in SEGMENTS for back_end in ENDINGS if back_end != "ptx" or name == "chain"]


def kernel(name, back_end):
    operators, type_, x, w, y = SEGMENTS[name]
    results = [f"h{place}" for place in range(len(operators) - 1)] + ["y"]
    values = [{"name": "x", "type": type_, "shape": x, "role": "input"}, {"name": "w", "type": type_, "shape": w, "role": "input"}]
    values += [{"name": each, "type": type_, "shape": y} for each in results[:-1]] + [{"name": "y", "type": type_, "shape": y, "role": "output"}]
    operations = [{"op": op, "inputs": [results[place - 1]] if place else ["x", "w"], "outputs": [results[place]]} for place, op in enumerate(operators)]
    segment = {"kiln_segment": 1, "name": name, "symbols": [ROWS], "values": values, "operations": operations}
    request = {"segment": segment, "symbols": [512], "buffers": {}, "architecture": "" if back_end == "opencl" else "90"}
    done = subprocess.run([BINARIES / "run_segments", back_end], input=json.dumps(request), capture_output=True, text=True, check=True)
    (only,) = json.loads(done.stdout)["kernels"]
    return only["text"]


@pytest.mark.parametrize("name, back_end", CASES)
def test_a_kernel_is_what_it_was(name, back_end):
    path = FOLDER / f"{name}.{ENDINGS[back_end]}"
    if "KILN_TEST_WRITE_GOLDEN_KERNELS" in os.environ:
        path.write_text(kernel(name, back_end))
    assert kernel(name, back_end) == path.read_text(), __doc__
