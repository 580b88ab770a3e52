"""Modules that convert to and from fp8, and what Triton makes of each in a process that has compiled nothing else.

For each target: `<backend>-<architecture>.ttir`, one kernel with every conversion that the target has, and its assembly, `.asm`.
Each is compiled in a fork of this process, which has imported Triton and compiled nothing.
"""

import argparse
import os
import pathlib
import sys

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend

FLOATS = {"f16": 16, "bf16": 16, "f32": 32}
FP8 = {"cuda": ("f8E4M3FN", "f8E5M2"), "hip": ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ")}
# Four for each of 128 threads: conversions take up to four at once.
ELEMENTS = 512
PARSED = "kernel.ttir"


def conversions(backend):
    """Source, result, and the rounding. Triton rounds towards zero to fp8e5 alone: from fp32, and for AMD from fp16."""
    nearest = [one for fp8 in FP8[backend] for other in FLOATS for one in ((other, fp8, "rtne"), (fp8, other, None))]
    return [*nearest, ("f16", "f8E5M2", "rtz"), ("f32", "f8E5M2", "rtz")]


def module(chosen):
    """A kernel that loads one tensor for each conversion and stores what becomes of it."""
    parameters, body = [], []
    for i, (source, result, rounding) in enumerate(chosen):
        parameters += [f"%x{i}: !tt.ptr<{source}> {{tt.divisibility = 16 : i32}}", f"%y{i}: !tt.ptr<{result}> {{tt.divisibility = 16 : i32}}"]
        how = f", rounding = {rounding}" if rounding else ""
        body.append(f"""
    %xs{i} = tt.splat %x{i} : !tt.ptr<{source}> -> tensor<{ELEMENTS}x!tt.ptr<{source}>>
    %xp{i} = tt.addptr %xs{i}, %range : tensor<{ELEMENTS}x!tt.ptr<{source}>>, tensor<{ELEMENTS}xi32>
    %v{i} = tt.load %xp{i} : tensor<{ELEMENTS}x!tt.ptr<{source}>>
    %c{i} = tt.fp_to_fp %v{i}{how} : tensor<{ELEMENTS}x{source}> -> tensor<{ELEMENTS}x{result}>
    %ys{i} = tt.splat %y{i} : !tt.ptr<{result}> -> tensor<{ELEMENTS}x!tt.ptr<{result}>>
    %yp{i} = tt.addptr %ys{i}, %range : tensor<{ELEMENTS}x!tt.ptr<{result}>>, tensor<{ELEMENTS}xi32>
    tt.store %yp{i}, %c{i} : tensor<{ELEMENTS}x!tt.ptr<{result}>>""")
    return f"""module {{
  tt.func public @convert({", ".join(parameters)}) {{
    %range = tt.make_range {{end = {ELEMENTS} : i32, start = 0 : i32}} : tensor<{ELEMENTS}xi32>{"".join(body)}
    tt.return
  }}
}}
"""


def assembly(backend_name, architecture, text):
    if backend_name == "cuda":
        target = GPUTarget("cuda", int(architecture), 32)
    else:
        target = GPUTarget("hip", architecture, 64 if len(architecture) == 6 else 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    pathlib.Path(PARSED).write_text(text)
    made = ir.parse_mlir_module(PARSED, context)
    made.context = context
    stages = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata = {"target": target, **options.__dict__}
    for name, stage in list(stages.items())[1:-1]:
        made = stage(made, metadata)
    return made


def in_a_fork(work):
    """Whether `work` ends well in a process of its own. Triton aborts at a conversion that it does not have."""
    pid = os.fork()
    if pid == 0:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 2)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--targets", required=True, help="cuda:80,hip:gfx942,…")
    arguments.add_argument("--in-one-process", action="store_true", help="compile all in this process, in this order")
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    chosen = arguments.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    os.chdir(chosen.out)
    for target in chosen.targets.split(","):
        backend, architecture = target.split(":")
        source = pathlib.Path(f"{backend}-{architecture}.ttir")
        if chosen.in_one_process:
            print(target, assembly(backend, architecture, source.read_text()) == source.with_suffix(".asm").read_text())
            continue
        compiles = lambda chosen: in_a_fork(lambda: assembly(backend, architecture, module(chosen)))
        has = conversions(backend)
        if not compiles(has):
            has = [one for one in has if compiles([one])]
        source.write_text(module(has))
        write = lambda: source.with_suffix(".asm").write_text(assembly(backend, architecture, source.read_text()))
        if not has or not in_a_fork(write):
            sys.exit(f"{target}: {has} do not compile together")


if __name__ == "__main__":
    main()
