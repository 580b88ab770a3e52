"""The programs with which back ends are tested elsewhere, on this GPU: emit_cases prints their kernels, inputs and results."""

import json
import subprocess

import numpy as np
import torch

import kiln

# Relative. A narrow float is rounded from f32.
TOLERANCES = {"f16": 2**-10, "bf16": 2**-7, "f32": 2**-18, "f64": 2**-46}
# Approximations are held to this (docs/graph.md).
FAST_TOLERANCES = {**TOLERANCES, "f32": 2**-12}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _numbers(content, kind):
    if kind == "bf16":
        return (np.frombuffer(content, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, FLOATS.get(kind, np.uint8))


def _is_near(seen, expected, kind, tolerances):
    tolerance = tolerances.get(kind, 0)
    with np.errstate(invalid="ignore"):
        return np.isclose(_numbers(seen, kind), _numbers(expected, kind), rtol=tolerance, atol=tolerance / 8, equal_nan=True).all()


def _is_right(artifact, case, tolerances):
    buffers = [bytes.fromhex(buffer["before"]) for buffer in case["buffers"]]
    # Atomic stores of narrow types read the whole word around an element.
    memory = [torch.frombuffer(bytearray(content + bytes(8)), dtype=torch.uint8).cuda() for content in buffers]
    kernel = kiln.load(artifact)
    kernel.launch(case["blocks"], *(tensor.data_ptr() for tensor in memory), *case["symbols"], block=(case["threads"],))
    seen = [tensor.cpu().numpy().tobytes()[:-8] for tensor in memory]
    return all(_is_near(one, bytes.fromhex(buffer["after"]), buffer["type"], tolerances) for one, buffer in zip(seen, case["buffers"], strict=True))


def _emitted(emit_cases, language, *arguments):
    printed = subprocess.run([emit_cases, language, *arguments], capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


def _row(client, what, cases, language, target, tolerances):
    requests = [kiln.CompileRequest(case["text"], target, language, case["entry"]) for case in cases]
    wrong = []
    for number, answer in client.compile_many(requests):
        case = cases[number]
        if isinstance(answer, kiln.KilnError):
            wrong.append(f"{case['entry']}: {answer}")
        elif not _is_right(answer, case, tolerances):
            wrong.append(case["entry"])
    return {"what": what, "result": f"{len(cases) - len(wrong)} of {len(cases)} right {wrong[:10] or ''}", "ok": not wrong}


def run(client, emit_cases, target):
    """Rows for each language: all that PTX has; of CUDA C++ those whose threads share rows or take several elements; and those that fast
    math changes."""
    for language in ("ptx", "cuda"):
        every = _emitted(emit_cases, language)
        cases = [case for case in every if language == "ptx" or case["entry"].startswith(("rows_", "elements_"))]
        yield _row(client, f"programs in {language}", cases, language, target, TOLERANCES)
        strict = {case["text"] for case in every}
        fast = [case for case in _emitted(emit_cases, language, "fast") if case["text"] not in strict]
        yield _row(client, f"programs in {language}, fast math", fast, language, target, FAST_TOLERANCES)
