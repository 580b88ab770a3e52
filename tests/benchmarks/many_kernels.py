"""A job of many distinct kernels, as small as those of torch.compile: what the rows `plugin-kernels` and `inductor-like` run.

    <toolchain>/bin/python many_kernels.py COUNT FOLDER [WORKERS]

writes the kernels' source to FOLDER, waits for a line on standard input, has Triton compile, or find, each kernel, and prints one
object as plugin_job.py does. Every process that is given the same two arguments has the same kernels. With WORKERS, so many forked
processes share the kernels, as Inductor's do: Triton is imported and has hashed itself before they are forked.
"""

import importlib
import json
import os
import pathlib
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import triton
import triton.runtime.cache
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from plugin_job import cpu_s

_HEAD = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def maximum(a, b):
    return tl.where(a > b, a, b)
"""
_POINTWISE = """

@triton.jit
def kernel_{number}(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % {number}
    tmp0 = tl.load(in_ptr0 + (xindex), xmask)
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy="evict_last")
    tmp2 = tmp0 + tmp1
    tmp3 = maximum(tmp2, 0.0)
    tmp4 = libdevice.tanh(tmp3) * tl.exp(tmp0.to(tl.float32))
    tl.store(out_ptr0 + (xindex), tmp4, xmask)
"""
_REDUCTION = """

@triton.jit
def kernel_{number}(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    rindex = tl.arange(0, XBLOCK)
    tmp0 = tl.load(in_ptr0 + tl.program_id(0) * {number} + rindex, rindex < xnumel, other=0.0)
    tmp1 = tl.sum(tmp0 * tmp0, axis=0)
    tmp2 = tl.load(in_ptr1 + rindex, rindex < xnumel, other=0.0)
    tl.store(out_ptr0 + tl.program_id(0) * {number} + rindex, tmp2 * tl.rsqrt(tmp1 / xnumel + 1e-5), rindex < xnumel)
"""


def _import(count, folder):
    """The module `many_kernels_source`, written where no other process has."""
    path = folder / "many_kernels_source.py"
    if not path.exists():
        kernels = ((_REDUCTION if number % 4 == 0 else _POINTWISE).format(number=number) for number in range(2, count + 2))
        part = folder / f"many_kernels_source.{os.getpid()}"
        part.write_text(_HEAD + "".join(kernels))
        part.rename(path)
    sys.path.insert(0, str(folder))
    importlib.import_module(path.stem)


def _compile(number):
    module = sys.modules["many_kernels_source"]
    signature = {**dict.fromkeys(("in_ptr0", "in_ptr1", "out_ptr0"), "*fp32"), "xnumel": "i32", "XBLOCK": "constexpr"}
    triton.compile(ASTSource(getattr(module, f"kernel_{number}"), signature, {"XBLOCK": 512}), target=GPUTarget("cuda", 90, 32))


def main():
    count, workers = int(sys.argv[1]), int((sys.argv + ["0"])[3])
    _import(count, pathlib.Path(sys.argv[2]))
    if workers:
        triton.runtime.cache.triton_key()
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, begin = cpu_s(), time.perf_counter()
    if workers:
        with ProcessPoolExecutor(workers, get_context("fork")) as pool:
            list(pool.map(_compile, range(2, count + 2)))
    else:
        knobs.cache.manager_class
        for number in range(2, count + 2):
            _compile(number)
    print(json.dumps({"kernels": count, "ms": 1000 * (time.perf_counter() - begin), "cpu_s": cpu_s() - cpu}), flush=True)


if __name__ == "__main__":
    main()
