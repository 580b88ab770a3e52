#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Run it with the Python of the toolchain that expected.json names; no GPU is needed. For a Triton from PyPI:

    python3 -m venv venv && venv/bin/pip install triton==VERSION && venv/bin/python reproduce.py

It takes no arguments. Every stage ends up in out/, beside it. Exit status: 0 as expected, 1 otherwise, 2 where it could not be tried.
"""

import hashlib
import os
import sys

sys.dont_write_bytecode = True
from common import HERE, check_ptxas, continue_in_child, make_out, parse_arguments, read, refuse  # noqa: E402

# Some assemblers choose between two binaries at random. 20 tries miss one of the two once in a million runs.
TRIES = 20

parse_arguments(__doc__)
expected, request = read("expected.json"), read("request.jsonl")
ptxas = os.environ.get("TRITON_PTXAS_PATH", "")
# Triton's environment variables change the output, and a cache manager may answer instead of Triton. A worker has only these variables.
for name in set(os.environ) - {"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"}:
    del os.environ[name]
if "ptxas" in request:
    advice = f"set TRITON_PTXAS_PATH to the ptxas whose SHA-256 is {request['ptxas']}"
    if not ptxas:
        refuse(advice)
    check_ptxas(ptxas, request["ptxas"], advice)
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        os.environ[name] = os.path.abspath(ptxas)

# Triton reads this variable when it is imported, and leaves the stages in a directory of their own there.
os.environ["TRITON_CACHE_DIR"] = os.path.join(HERE, "out")

try:
    import triton  # noqa: E402
except ImportError as error:
    if (error.name or "").partition(".")[0] != "triton":
        raise
    refuse(f"{sys.executable} has no Triton ({error}): run this with the Python of {expected['toolchain']}. For a Triton from PyPI:\n"
           f"python3 -m venv venv && venv/bin/pip install {expected['toolchain']} && venv/bin/python {os.path.join(HERE, 'reproduce.py')}")
from origins import put_back_origins  # noqa: E402
from seccomp import blind_programs  # noqa: E402
from triton._C.libtriton import ir  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import compiler  # noqa: E402


blind_programs()  # ptxas writes time and size of a source that it finds into the line table


class DeletedSource(compiler.IRSource):
    """Has the places of loops' variables back, and deletes the source once it is parsed."""

    def make_ir(self, *arguments, **named):
        module = super().make_ir(*arguments, **named)
        put_back_origins(ir, module, self.src)
        os.remove(self.path)
        return module


compiler.IRSource = DeletedSource


def to_tuples(value):
    return tuple(map(to_tuples, value)) if isinstance(value, list) else value


backend, architecture, *warp_size = request["target"].split(":")
if warp_size:
    warp_size = int(warp_size[0])
else:
    warp_size = 64 if backend == "hip" and len(architecture) == 6 else 32
target = GPUTarget(backend, int(architecture) if backend == "cuda" else architecture, warp_size)
options = {name: to_tuples(value)
           for given in ("launch", "options") for name, value in request.get(given, {}).items()}
if options.pop("disable_line_info", False):
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

if f"triton=={triton.__version__}" != expected["toolchain"]:
    print(f"warning: this is Triton {triton.__version__}, it was {expected['toolchain']}", file=sys.stderr)


def compile_once():
    make_out(f"kernel.{request['kind']}")
    os.chdir("out")
    asm = triton.compile(f"kernel.{request['kind']}", target=target, options=options).asm
    return {stage: asm[stage] if isinstance(asm[stage], bytes) else str(asm[stage]).encode() for stage in expected.get("stages", {})}


def is_as_stored(made, stage):
    return hashlib.sha256(made[stage]).hexdigest() == expected["stages"][stage]


if "crash" in expected.get("failure", {}):
    continue_in_child()
try:
    made = compile_once()
except (ImportError, OSError) as error:
    refuse(error)
except Exception as error:
    print(f"it does not compile: {error}")
    sys.exit(0 if "failure" in expected else 1)
if "stages" not in expected:
    print("it compiles")
    sys.exit(1)
final = list(expected["stages"])[-1]
for _ in range(TRIES - 1):
    if is_as_stored(made, final):
        break
    made = compile_once()
for stage, content in made.items():
    print(f"{stage}: {len(content)} bytes, {'as stored' if is_as_stored(made, stage) else 'NOT as stored'}")
sys.exit(0 if is_as_stored(made, final) else 1)
