"""ONNX's node tests and random segments on this GPU: kernels of the graph front end by each of its languages for CUDA.

    python graph_nodes_job.py OUT.json RUN_SEGMENTS NODES RANDOM TARGET

NODES, RANDOM: what for_gpu.py of tests/testing/onnx_nodes and of tests/testing/random_segments printed, with gzip. Runs with a daemon. Prints a
row for each language as JSON, and writes all of them to OUT.json.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import torch

import kiln
from graph_kernels import KINDS

NARROW = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
         **{f"{sign}{bits}": f"{sign}{bits // 8}" for sign in "iu" for bits in (8, 16, 32, 64)}}
RTOL = {"bf16": 2**-6, "f16": 2**-9}  # as in tests/testing/onnx_nodes
PLACES_BEHIND = 8  # atomic stores of narrow types read the whole word around an element


def numbers(content, kind):
    if kind in NARROW:
        return torch.frombuffer(bytearray(content), dtype=NARROW[kind]).double().numpy() if content else np.zeros(0)
    return np.frombuffer(content, NUMPY.get(kind, np.uint8))  # pairs of 4 bits: as bytes


def is_near(got, output, case):
    kind = output["type"]
    if "allowed" in output:
        return is_allowed(numbers(got, kind).astype(np.float64), output)
    wanted = numbers(bytes.fromhex(output["bytes"]), kind)
    got = numbers(got, kind)
    if kind not in ("bool", *NUMPY) or wanted.dtype.kind == "f":
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.isclose(got, wanted, rtol=max(case["rtol"], RTOL.get(kind, 0)), atol=case["atol"], equal_nan=True).all()


def is_allowed(got, output):
    wanted, allowed = (np.frombuffer(bytes.fromhex(output[name])) for name in ("numbers", "allowed"))
    with np.errstate(all="ignore"):
        is_same = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (np.abs(got - wanted) <= allowed)
    return bool(np.all(is_same | np.isinf(allowed)))


def answers(program, language, cases, architecture):
    text = "".join(json.dumps({**case["request"], "architecture": architecture}) + "\n" for case in cases)
    done = subprocess.run([program, language], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def outputs_of(case, answer, artifacts):
    """The bytes of its values, by name, after its kernels have run."""
    contents = {name: bytes.fromhex(content) for name, content in case["request"]["buffers"].items()}
    memory = {}
    for name in answer["sizes"].keys() | contents.keys():
        content = contents.get(name, bytes(answer["sizes"].get(name, 0)))
        memory[name] = torch.frombuffer(bytearray(content + bytes(PLACES_BEHIND)), dtype=torch.uint8).cuda()
    for kernel, artifact in zip(answer["kernels"], artifacts, strict=True):
        if 0 in kernel["grid"]:
            continue
        block = {} if "tt.func" in kernel["text"] else {"block": (kernel["threads"], 1, 1)}
        arguments = [*(memory[name].data_ptr() for name in kernel["buffers"]), *case["request"]["symbols"]]
        kiln.load(artifact).launch((*kernel["grid"], 1, 1)[:3], *arguments, **block)
    torch.cuda.synchronize()
    return {name: tensor.cpu().numpy().tobytes()[:-PLACES_BEHIND] for name, tensor in memory.items()}


def run(client, program, language, what, cases, target):
    """A row: how many of the cases that the language can write are right."""
    given = answers(program, language, cases, target.partition(":")[2])
    written = [(case, answer) for case, answer in zip(cases, given, strict=True) if "error" not in answer]
    requests, places = [], []
    for place, (_, answer) in enumerate(written):
        for kernel in answer["kernels"]:
            options = {"num_warps": kernel["threads"] // 32} if language == "triton" else {}
            requests.append(kiln.CompileRequest(kernel["text"], target, KINDS[language], kernel["entry"], options))
            places.append(place)
    compiled = dict(client.compile_many(requests))
    artifacts = [[] for _ in written]
    for number, place in enumerate(places):
        artifacts[place].append(compiled[number])
    wrong = []
    for (case, answer), those in zip(written, artifacts, strict=True):
        failed = next((one for one in those if isinstance(one, kiln.KilnError)), None)
        if failed is not None:
            wrong.append(f"{case['name']}: {str(failed)[:200]}")
            continue
        seen = outputs_of(case, answer, those)
        if not all(is_near(seen[output["name"]], output, case) for output in case["outputs"]):
            wrong.append(case["name"])
    return {"what": f"{what} by {language}", "ok": not wrong,
            "result": f"{len(written) - len(wrong)} of {len(written)} right, {len(cases) - len(written)} by other languages {wrong[:20] or ''}"}


def main():
    out, program, nodes, random, target = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    client = kiln.Client()
    rows = []
    for what, path in (("ONNX's node tests", nodes), ("random segments", random)):
        with gzip.open(path, "rt") as file:
            cases = [json.loads(line) for line in file]
        for language in ("ptx", "cuda", "triton"):
            rows.append(run(client, program, language, what, cases, target))
            print(json.dumps(rows[-1]), file=stream, flush=True)
    out.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
