"""Random segments, planned, lowered and run by each back end, held against NumPy.

The tolerance is in tests/testing/random_segments/comparison.py. KILN_TEST_RANDOM_GRAPHS=100 tries a hundred times as many.
"""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from hypothesis import given

from onnx_nodes.compilers import spirv
from places import BINARIES
from random_segments.comparison import Tolerances
from random_segments.drawing import drawn, examples
from random_segments.strategies import segments
from random_segments.triton_kernels import run_triton

class Runner:
    """run_segments with one back end."""

    def __init__(self, back_end):
        self._process = subprocess.Popen([BINARIES / "run_segments", back_end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, segment, **config):
        self._process.stdin.write(json.dumps(segment.request(**config)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def close(self):
        self._process.stdin.close()
        assert self._process.wait() == 0


@pytest.fixture(scope="module")
def interpreter():
    runner = Runner("interpreter")
    yield runner
    runner.close()


def differences(segment, answer):
    buffers = {name: bytes.fromhex(content) for name, content in answer["buffers"].items()}
    return Tolerances(segment).differences(buffers)


@examples(60)
@given(segments())
def test_a_fused_plan_computes_what_numpy_does(interpreter, segment):
    assert differences(segment, interpreter.answer(segment)) == []


@examples(40)
@given(segments(operations_max=8, around_attention=True))
def test_attention_computes_what_is_before_it(interpreter, segment):
    assert differences(segment, interpreter.answer(segment)) == []


@examples(20)
@given(segments())
def test_a_plan_without_fusion_computes_what_numpy_does(interpreter, segment):
    assert differences(segment, interpreter.answer(segment, fuses=False)) == []


@examples(20)
@given(segments(operations_max=8))
def test_types_of_sections_that_are_off_change_no_result(interpreter, segment):
    assert differences(segment, interpreter.answer(segment, off=["reduction", "matmul", "view"])) == []


def run_on_host(made, **config):
    lines = "".join(json.dumps(segment.request(**config)) + "\n" for segment in made)
    done = subprocess.run([BINARIES / "run_segments", "host"], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("count", "config"), [
    pytest.param(25, {}, id="a-launch-each"), pytest.param(10, {"barriers": "always"}, id="grid-barriers", marks=pytest.mark.slow)])
def test_cuda_kernels_compute_what_numpy_does(count, config):
    """Compiled for the host, all in one source."""
    made = drawn(count, 15) + drawn(10, 6, around_attention=True)
    for segment, answer in zip(made, run_on_host(made, **config), strict=True):
        assert "error" not in answer, (answer["error"], segment)
        assert differences(segment, answer) == [], segment


def test_triton_ir_computes_what_numpy_does(tmp_path):
    """By the interpreter on NumPy, after real Triton has parsed and verified it."""
    made = drawn(12, 10) + drawn(8, 5, around_attention=True)
    runner = Runner("triton")
    answers = [runner.answer(segment) for segment in made]
    runner.close()
    for segment, buffers in zip(made, run_triton(made, answers, tmp_path), strict=True):
        assert Tolerances(segment).differences(buffers) == [], segment


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")
def test_opencl_kernels_compute_what_numpy_does(tmp_path):
    """As SPIR-V, by Intel's runtime on this CPU."""
    made = drawn(15, 30) + drawn(8, 6, around_attention=True)
    for segment, buffers in zip(made, spirv(made, tmp_path), strict=True):
        assert not isinstance(buffers, str), (buffers, segment)
        assert Tolerances(segment).differences(buffers) == [], segment


def test_the_comparison_sees_a_wrong_element(interpreter):
    segment = next(one for one in drawn(20, 4) if any(tensor.array.size and tensor.is_float for tensor in one.with_role("output")))
    answer = interpreter.answer(segment)
    name = next(tensor.name for tensor in segment.with_role("output") if tensor.array.size and tensor.is_float)
    content = bytearray.fromhex(answer["buffers"][name])
    assert differences(segment, answer) == []
    answer["buffers"][name] = (np.frombuffer(bytes(content), np.uint8) ^ 0x5A).tobytes().hex()
    assert differences(segment, answer) != []
