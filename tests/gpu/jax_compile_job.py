"""How long kiln.jax has to wait for kernels: those of a program that is lowered, and the configurations of an autotuned one.

    python jax_compile_job.py OUT.json lower CAPABILITY COUNT [jax_triton]    a program of so many distinct kernels; needs no GPU
    python jax_compile_job.py OUT.json tune GROUP                a matmul over 18 configurations; another GROUP makes others of them

Writes {"seconds": ..., "again": the same once more in this process, as another program, "longest": the compile that took longest,
"assembled": seconds that ptxas took here, "report": what Kiln did}. With KILN_MODE=off Triton compiles here, one kernel after the other;
with `jax_triton` jax-triton lowers, and Kiln has no part in it. Another kernel goes before, so that nothing of a process's first compile
is counted.
"""

import functools
import importlib
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import triton

import jax_kernels as kernels
import kiln
import launch_kernels
from kiln.jax import _compiled

SIZE = 2048  # of the matmul
_HEAD = "import triton\nimport triton.language as tl\n"
_KERNEL = '''

@triton.jit
def norm_{0}(x_ptr, columns, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=0.0) * {0}
    x -= tl.sum(x, axis=0) / columns
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * columns + at, x * weights / tl.sum(weights, axis=0), mask=at < columns)
'''
_compile = _compiled._compile
_one_by_one = os.environ.get("KILN_MODE") == "off"
AGAIN = 5  # programs, of which the median counts
seconds, assembled = [], 0.0


def timed_compile(wanted):
    begin = time.monotonic()
    try:
        return _compile(wanted)
    finally:
        seconds.append(time.monotonic() - begin)


def note_stages(times, **_):
    global assembled
    assembled += sum(microseconds for stage, microseconds in times.lowering_stages if stage == "cubin") / 1e6


def result_of(whole):
    return {"seconds": whole, "longest": max(seconds, default=0), "compiles": len(seconds), "assembled": assembled, "report": vars(kiln.report())}


def lowered(run, *shapes):
    return jax.jit(run).trace(*shapes).lower(lowering_platforms=("cuda",))


def compile_another():
    lowered(kernels.add, kernels.shape(4096), kernels.shape(4096))
    seconds.clear()


def seconds_of(run, *shapes):
    begin = time.monotonic()
    lowered(run, *shapes)
    return time.monotonic() - begin


# --- A program -------------------------------------------------------------------------------------------------------


def distinct_kernels(folder, count):
    """In a file, which Triton reads. The same for each process, as kernels know their file."""
    path = folder / "jax_distinct_kernels.py"
    if not path.exists():
        path.write_text(_HEAD + "".join(_KERNEL.format(number) for number in range(2, count + 2)))
    sys.path.append(str(folder))
    return [one for name, one in sorted(vars(importlib.import_module(path.stem)).items()) if name.startswith("norm_")]


def lower(folder, capability, count, by="kiln"):
    first, *every = distinct_kernels(folder, int(count) + 1)
    kernels.capability = int(capability)
    call = kernels.call
    if by == "jax_triton":
        sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "jax_triton"))  # of the bundle
        from jax_triton import triton_call
        call = functools.partial(triton_call, compute_capability=kernels.capability)

    def program(chain, factor=1):

        def run(x):
            for kernel in chain:
                x = call(x, x.shape[1], kernel=kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=x.shape[:1], BLOCK=1024)
            return factor * x

        return run

    shape = kernels.shape(512, 1000)
    lowered(program([first]), shape)
    seconds.clear()
    if by == "jax_triton" or _one_by_one:
        triton.knobs.compilation.listener = note_stages
    result = result_of(seconds_of(program(every), shape))
    again = [seconds_of(program(every, factor), shape) for factor in range(2, 2 + AGAIN)]
    return {**result, "again": statistics.median(again)}


# --- A tuning --------------------------------------------------------------------------------------------------------


def tune(group):
    """seconds: of the compiles alone, since a tuner that compiles one by one measures too. tuned: with measuring."""
    whole, together = [], _compiled.compiled_together

    def timed(wanted):
        begin = time.monotonic()
        made = [_compiled._tried(one) for one in wanted] if _one_by_one else together(wanted)
        whole.append(time.monotonic() - begin)
        assert all(isinstance(one, _compiled.Compiled) for one in made), made
        return made

    configurations = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": int(group)}, num_warps=warps, num_stages=stages)
                      for m, n, warps in launch_kernels.TILES for k, stages in launch_kernels.DEPTHS]
    tuned = triton.autotune(configurations, key=["m", "n", "k"])(kernels.matmul_)

    def run(a, b):
        return kernels.call(a, b, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, kernel=tuned, out_shape=a,
                            grid=lambda meta: (triton.cdiv(SIZE, meta["BLOCK_M"]) * triton.cdiv(SIZE, meta["BLOCK_N"]),))

    a, b = (kernels.random(SIZE, SIZE) for _ in range(2))
    compile_another()
    _compiled.compiled_together = timed
    begin = time.monotonic()
    tuning, = kiln.jax.tune(run, a, b)
    return {**result_of(sum(whole)), "tuned": time.monotonic() - begin, "best": str(tuning)}


def main():
    out, what, *rest = sys.argv[1:]
    _compiled._compile = timed_compile
    result = lower(pathlib.Path(out).resolve().parent, *rest) if what == "lower" else tune(*rest)
    pathlib.Path(out).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
