"""What triton_worker.py makes of its own troubles, mostly without Triton."""

import errno
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from places import ROOT, TOOLCHAIN

WORKER = ROOT / "daemon" / "worker"
LOAD_WORKER = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import triton_worker as worker\n"


@pytest.fixture(scope="module")
def worker():
    spec = importlib.util.spec_from_file_location("triton_worker", WORKER / "triton_worker.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("error, code", [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "unavailable"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "unavailable"),
    # The source may have taken it.
    (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "internal"),
    (MemoryError(), "internal"),
], ids=repr)
def test_only_what_the_machine_lacks_is_held_against_nobody(worker, error, code):
    failure = worker.classify(error, "cubin", None)
    assert (failure.code, failure.deterministic) == (code, False)


def test_an_assembler_that_was_exchanged_is_not_the_kernels_fault(worker, tmp_path):
    (tmp_path / "ptxas").write_text("another")
    for path in (tmp_path / "ptxas", tmp_path / "missing"):
        with pytest.raises(worker.Failure) as caught:
            worker.check_digest(str(path), "0" * 64)
        assert caught.value.code == "unavailable"


def complaints():
    return json.loads((ROOT / "tests" / "vectors" / "ptxas_complaints.json").read_text())["cases"]


@pytest.mark.parametrize("case", complaints(), ids=lambda case: case["log"][:40])
def test_what_ptxas_says_means_the_same_to_both_workers(worker, case):
    log = case["log"]
    failure = worker.ptxas_failure(f"`ptxas` failed with error code 255\n`ptxas` stderr:\n{log}\nRepro command: ptxas x.ptx\n", "cubin")
    assert (failure.code, failure.deterministic) == (case["code"], case["deterministic"])
    if "message" in case:
        assert str(failure) == case["message"]


def in_triton(script, *arguments, directory):
    """Runs a script in the toolchain's own Python, with the worker's module as `worker`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    ran = subprocess.run([TOOLCHAIN / "bin" / "python", "-B", "-c", LOAD_WORKER + script, *arguments], cwd=directory, env=environment,
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
import hashlib, os
compiler = worker.Compiler()
request = worker.request_for("cuda", "90")
whole = compiler.compile(request, worker.WARM_KERNEL.encode())[0][-1][1]
assert worker.is_whole_elf(whole)
assert not any(worker.is_whole_elf(whole[:end]) for end in range(len(whole)))
path = sys.argv[1]
request["ptxas"] = {"path": path, "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "version": "1.0"}
os.environ["REAL_PTXAS"] = compiler._tool_path("ptxas")
for kept in (0, len(whole) // 2, len(whole) - 1):
    os.environ["KEPT_BYTES"] = str(kept)
    try:
        compiler.compile(request, worker.WARM_KERNEL.encode())
        sys.exit(f"{kept} bytes were taken for a binary")
    except worker.Failure as failure:
        assert (failure.code, failure.deterministic) == ("unavailable", False), failure
""", ptxas, directory=tmp_path)


def test_a_ptxas_that_triton_does_not_take_leaves_all_as_it_was(tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\nexit 1\n")
    in_triton("""
import hashlib, os
compiler = worker.Compiler()
request = worker.request_for("cuda", "90")
def assembler():
    return compiler.compile(request, worker.WARM_KERNEL.encode())[1]["assembler"]
before = assembler()
path = sys.argv[1]
named = {"path": path, "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "version": "1.0"}
# Triton falls back to its own where it ends badly, and raises where it does not start.
for mode in (0o700, 0o600):
    os.chmod(path, mode)
    try:
        compiler.use_ptxas(named)
        sys.exit("taken")
    except worker.Failure as failure:
        assert "does not take" in str(failure), failure
    assert "TRITON_PTXAS_PATH" not in os.environ
    assert compiler._knobs.ptxas.path != path
assert assembler() == before
""", ptxas, directory=tmp_path)


def test_a_path_that_cannot_be_opened_costs_that_path_alone(tmp_path):
    inside, outside, loop = tmp_path / "inside", tmp_path / "outside", tmp_path / "loop"
    inside.write_text("")
    outside.write_text("")
    loop.symlink_to(loop)
    script = LOAD_WORKER + """
if worker.LIBC.syscall(worker.SYS_LANDLOCK_CREATE_RULESET, None, worker.ctypes.c_size_t(0), 1) < 1:
    sys.exit(77)
inside, outside, loop = sys.argv[1:]
read = 1 << 2
jail = {"files": read, "network": 0, "scopes": 0, "paths": [[loop, read], [inside, read]], "filter": []}
print(*worker.Confinement(jail).enter(), sep="\\n")
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
