"""Compiles modules of Triton IR down to the binary, without a GPU.

    <toolchain>/bin/python compile_all.py < REQUESTS

A request is a line of JSON: {"file", "target": "cuda:80", "warps"}. A line of JSON for each: {"file", "target", "bytes", "shared", "units"}, or {…, "error"}.
`shared`: bytes of shared memory. `units`: the instructions of matrix units that are there.
"""

import json
import os
import pathlib
import sys
import tempfile

import triton
from triton.backends.compiler import GPUTarget

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "jobs"))
import tritons_key  # noqa: E402

UNITS = ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "v_mfma")


def gpu_target(text):
    backend, architecture = text.split(":")
    return GPUTarget(backend, int(architecture) if backend == "cuda" else architecture, 32 if backend == "cuda" else 64)


def answer(request):
    target = gpu_target(request["target"])
    try:
        compiled = triton.compile(request["file"], target=target, options={"num_warps": request["warps"]})
    except Exception as error:  # whatever a compiler throws
        return {**request, "error": f"{type(error).__name__}: {error}"[:2000]}
    text, binary = ("ptx", "cubin") if target.backend == "cuda" else ("amdgcn", "hsaco")
    units = [unit for unit in UNITS if unit in compiled.asm[text]]
    return {**request, "bytes": len(compiled.asm[binary]), "shared": compiled.metadata.shared, "units": units}


with tempfile.TemporaryDirectory() as folder:
    os.environ["TRITON_CACHE_DIR"] = folder
    tritons_key.leave_out()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
