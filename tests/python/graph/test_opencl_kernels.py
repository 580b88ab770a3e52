"""OpenCL C of the graph front end, for real: the daemon makes SPIR-V of it, Intel's runtime runs that on this CPU."""

import ctypes
import json
import pathlib
import subprocess
import time

import numpy as np
import pytest

import kiln
from places import BINARIES

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/bin/llvm-spirv-15").exists(), reason="deploy/install-packages opencl")

# All of them take two minutes. One in four runs with the slow tests, one in 24 always, others each day; and those whose threads share
# rows.
SLOW = 4
ALWAYS = 24
TODAY = int(time.time() // 86400)
# Relative. OpenCL allows a function of f32 or f64 up to 16 units in the last place; a narrow float is rounded from f32.
TOLERANCES = {"f16": 2**-10, "bf16": 2**-7, "f32": 2**-19, "f64": 2**-48}
# Approximations are held to this (docs/graph.md).
FAST_TOLERANCES = {**TOLERANCES, "f32": 2**-12}


def emitted(*arguments):
    return json.loads(subprocess.run([BINARIES / "emit_cases", "opencl", *arguments], capture_output=True, text=True, check=True).stdout)


# Computing what the cases give takes seconds: one process does it, when the tests run.
LISTED = emitted("list")


@pytest.fixture(scope="module")
def cases():
    return {case["entry"]: case for case in emitted()}


@pytest.fixture(scope="module")
def approximate_cases():
    return {case["entry"]: case for case in emitted("fast")}


def parameters():
    for number, listed in enumerate(LISTED, TODAY):
        is_shared = listed["entry"].startswith("rows_")
        if number % SLOW == 0 or is_shared:
            yield pytest.param(listed["entry"], marks=() if number % ALWAYS == 0 or is_shared else pytest.mark.slow)


def numbers(content, kind):
    """Floats as they are, everything else as bytes."""
    if kind == "bf16":
        return (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(kind, np.uint8))


def differences(seen, expected, kind, tolerances=TOLERANCES):
    """Places where the two differ by more than rounding, with both."""
    seen, expected = numbers(seen, kind), numbers(expected, kind)
    tolerance = tolerances.get(kind, 0)
    with np.errstate(invalid="ignore"):
        equal = np.isclose(seen, expected, rtol=tolerance, atol=tolerance / 8, equal_nan=True)
    return [(int(place), seen[place].item(), expected[place].item()) for place in np.flatnonzero(~equal)]


def check(client, runtime, device, case, tolerances):
    artifact = client.compile(kiln.CompileRequest(source=case["text"], kind="opencl", target="spirv:1.2"))
    kernel = runtime.load(artifact, device=0)
    # One byte more, since an array of OpenCL is not empty.
    arrays = [device.array(ctypes.c_char, bytes.fromhex(buffer["before"]) + b"\0") for buffer in case["buffers"]]
    kernel.launch(max(case["blocks"], 1), *map(ctypes.addressof, arrays), *case["symbols"], block=(case["threads"],), stream=device.queue)
    device.finish()
    for array, buffer in zip(arrays, case["buffers"], strict=True):
        assert differences(bytes(array)[:-1], bytes.fromhex(buffer["after"]), buffer["type"], tolerances) == []


@pytest.mark.parametrize("entry", parameters())
def test_a_kernel_computes_what_its_program_says(client, runtime, device, cases, entry):
    check(client, runtime, device, cases[entry], TOLERANCES)


@pytest.mark.parametrize("entry", [listed["entry"] for listed in LISTED if listed["has_approximations"]])
def test_a_kernel_with_approximations_is_near_what_its_program_says(client, runtime, device, approximate_cases, entry):
    check(client, runtime, device, approximate_cases[entry], FAST_TOLERANCES)
