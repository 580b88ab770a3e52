"""What triton_worker.py makes of its own troubles, mostly without Triton."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from kiln_triton_worker.diagnosis import classify
from kiln_triton_worker.ptxas_report import ptxas_failure
from places import ROOT, TOOLCHAIN, WORKER

FIND_PACKAGE = f"import sys; sys.path.insert(0, {str(WORKER)!r})\n"


# As in an installation, where somebody else's modules may lie.
def test_what_lies_beside_the_program_has_no_say_and_is_left_alone(tmp_path):
    shutil.copytree(WORKER / "kiln_triton_worker", tmp_path / "lib" / "kiln_triton_worker", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(WORKER / "triton_worker.py", tmp_path / "lib")
    for name in ("argparse.py", "triton.py"):
        (tmp_path / "lib" / name).write_text("raise SystemExit(f'{__file__} was imported')")
    (tmp_path / "link").symlink_to(tmp_path / "lib" / "triton_worker.py")
    before = sorted(tmp_path.rglob("*"))
    ran = subprocess.run([sys.executable, "-I", "-B", tmp_path / "link", "--help"], cwd=tmp_path / "lib", capture_output=True, text=True)
    assert ran.returncode == 0 and "--zygote" in ran.stdout, ran.stdout + ran.stderr
    assert sorted(tmp_path.rglob("*")) == before


# A worker is forked with what the zygote has imported, and its jail lets it read no more of this.
def test_every_module_is_imported_before_anything_is_done():
    script = FIND_PACKAGE + "import kiln_triton_worker.program; print(*sys.modules, sep='\\n')"
    ran = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, check=True)
    modules = {f"kiln_triton_worker.{path.stem}" for path in (WORKER / "kiln_triton_worker").glob("*.py")}
    assert modules - {"kiln_triton_worker.__init__"} <= set(ran.stdout.split())


@pytest.mark.parametrize("error, code", [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "unavailable"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "unavailable"),
    # The source may have taken it.
    (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "internal"),
    (MemoryError(), "internal"),
], ids=repr)
def test_only_what_the_machine_lacks_is_held_against_nobody(error, code):
    failure = classify(error, "cubin", None)
    assert (failure.code, failure.deterministic) == (code, False)


def complaints():
    return json.loads((ROOT / "tests" / "vectors" / "ptxas_complaints.json").read_text())["cases"]


@pytest.mark.parametrize("case", complaints(), ids=lambda case: case["log"][:40])
def test_what_ptxas_says_means_the_same_to_both_workers(case):
    log = case["log"]
    failure = ptxas_failure(f"`ptxas` failed with error code 255\n`ptxas` stderr:\n{log}\nRepro command: ptxas x.ptx\n", "cubin")
    assert (failure.code, failure.deterministic) == (case["code"], case["deterministic"])
    if "message" in case:
        assert str(failure) == case["message"]


PREPARE = FIND_PACKAGE + """
import hashlib, os
from kiln_triton_worker.compiler import Compiler
from kiln_triton_worker.elf import is_whole_elf
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.warm_kernel import WARM_KERNEL, request_for
compiler = Compiler()
request = request_for("cuda", "90")
"""


def in_triton(script, *arguments, directory):
    """Runs a script in the toolchain's own Python, with a compiler and a request of the worker's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    ran = subprocess.run([TOOLCHAIN / "bin" / "python", "-B", "-c", PREPARE + script, *arguments], cwd=directory, env=environment,
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


# On a full disk ptxas ends with 0 and leaves what there was room for; here a script does the leaving.
def test_a_binary_that_is_cut_off_is_the_disks_fault(tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text('''#!/bin/bash
"$REAL_PTXAS" "$@" && [[ $# -lt 3 ]] || truncate -s "$KEPT_BYTES" "${@: -1}"
''')
    ptxas.chmod(0o700)
    in_triton("""
whole = compiler.compile(request, WARM_KERNEL.encode())[0][-1][1]
assert is_whole_elf(whole)
assert not any(is_whole_elf(whole[:end]) for end in range(len(whole)))
path = sys.argv[1]
request["ptxas"] = {"path": path, "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "version": "1.0"}
os.environ["REAL_PTXAS"] = compiler.assemblers.path("ptxas")
for kept in (0, len(whole) // 2, len(whole) - 1):
    os.environ["KEPT_BYTES"] = str(kept)
    try:
        compiler.compile(request, WARM_KERNEL.encode())
        sys.exit(f"{kept} bytes were taken for a binary")
    except Failure as failure:
        assert (failure.code, failure.deterministic) == ("unavailable", False), failure
""", ptxas, directory=tmp_path)


def test_a_ptxas_that_triton_does_not_take_leaves_all_as_it_was(tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\nexit 1\n")
    in_triton("""
def assembler():
    return compiler.compile(request, WARM_KERNEL.encode())[1]["assembler"]
before = assembler()
path = sys.argv[1]
named = {"path": path, "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "version": "1.0"}
# Triton falls back to its own where it ends badly, and raises where it does not start.
for mode in (0o700, 0o600):
    os.chmod(path, mode)
    try:
        compiler.assemblers.use_ptxas(named)
        sys.exit("taken")
    except Failure as failure:
        assert "does not take" in str(failure), failure
    assert "TRITON_PTXAS_PATH" not in os.environ
    assert compiler.toolchain.knobs.ptxas.path != path
assert assembler() == before
""", ptxas, directory=tmp_path)


def test_a_path_that_cannot_be_opened_costs_that_path_alone(tmp_path):
    inside, outside, loop = tmp_path / "inside", tmp_path / "outside", tmp_path / "loop"
    inside.write_text("")
    outside.write_text("")
    loop.symlink_to(loop)
    script = FIND_PACKAGE + """
import ctypes
from kiln_triton_worker.jail import SYS_LANDLOCK_CREATE_RULESET, Confinement
from kiln_triton_worker.libc import LIBC
if LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1) < 1:
    sys.exit(77)
inside, outside, loop = sys.argv[1:]
read = 1 << 2
jail = {"files": read, "network": 0, "scopes": 0, "paths": [[loop, read], [inside, read]], "filter": []}
print(*Confinement(jail).enter(), sep="\\n")
open(inside).close()
try:
    open(outside).close()
except PermissionError:
    sys.exit(0)
sys.exit("Landlock is not there")
"""
    ran = subprocess.run([sys.executable, "-I", "-B", "-c", script, inside, outside, loop], capture_output=True, text=True)
    if ran.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"Landlock, {loop}: {os.strerror(errno.ELOOP)}\n"
