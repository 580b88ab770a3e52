"""Runs kernels that run_segments has printed."""

import json
import subprocess

import numpy as np

from places import ROOT, TOOLCHAIN
from triton_ir.interpreter import Kernel

_GENERIC_FORM = ROOT / "tests" / "testing" / "triton_ir" / "generic_form.py"


def run_triton(segments, answers, folder):
    """The outputs of each segment, as bytes by name. answers: what run_segments says of each."""
    paths = []
    for number, answer in enumerate(answers):
        for place, kernel in enumerate(answer["kernels"]):
            paths.append(folder / f"{number}-{place}.ttir")
            paths[-1].write_text(kernel["text"])
    forms = iter(_generic_forms(paths))
    return [_results(segment, answer, forms) for segment, answer in zip(segments, answers, strict=True)]


def _generic_forms(paths):
    """As Triton prints what it has parsed and verified."""
    command = [TOOLCHAIN / "bin" / "python", "-B", _GENERIC_FORM, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [answer["error"] for answer in answers if "error" in answer]
    return [answer["text"] for answer in answers]


def memory_of(segment, answer):
    """Every value's bytes before the first launch, by name."""
    buffers = {name: np.frombuffer(bytearray.fromhex(content), np.uint8) for name, content in segment.request()["buffers"].items()}
    return {name: buffers.get(name, np.zeros(size, np.uint8)) for name, size in answer["sizes"].items()}


def _results(segment, answer, forms):
    memory = memory_of(segment, answer)
    symbols = [number for _, number in segment.symbols]
    for kernel in answer["kernels"]:
        form = next(forms)
        if 0 not in kernel["grid"]:
            Kernel(form).run([*(memory[name] for name in kernel["buffers"]), *symbols], kernel["grid"])
    return {tensor.name: memory[tensor.name].tobytes() for tensor in segment.with_role("output")}
