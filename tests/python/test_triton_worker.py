"""What triton_worker.py makes of its own troubles, mostly without Triton."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from kiln_triton_worker.diagnosis import classify
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.kernel import amdgcn_usage, without_long_names
from kiln_triton_worker.ptxas_report import ptxas_failure
from kiln_triton_worker.reply import COUNTS_MAX, compiled_reply
from kiln_triton_worker.zygote import Zygote
from loops import LOOP, ORIGINS, with_origins
from places import ROOT, TOOLCHAIN, WORKER

FIND_PACKAGE = f"import sys; sys.path.insert(0, {str(WORKER)!r})\n"


# As in an installation, where somebody else's modules may lie.
def test_files_beside_the_program_are_ignored(tmp_path):
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


def test_programs_of_a_worker_keep_their_allocator_and_get_large_pages():
    script = FIND_PACKAGE + """
import os, socket
from kiln_triton_worker.zygote import run_zygote
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def look():
    raise RuntimeError(" ".join(sorted(os.environ)))
run_zygote(look, theirs.detach(), os.getppid(), [])
print(ours.recv(1000).decode())
"""
    ran = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, check=True,
                         env={"LD_PRELOAD": "libc.so.6", "MALLOC_CONF": "narenas:1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
                              "LANG": "C.UTF-8"})
    assert "LANG" in ran.stdout and "LD_PRELOAD" not in ran.stdout and "MALLOC_CONF" not in ran.stdout
    assert "GLIBC_TUNABLES" in ran.stdout


@pytest.mark.parametrize("error, code", [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "unavailable"),
    (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "unavailable"),
    # The source may have taken it.
    (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "internal"),
    (MemoryError(), "internal"),
], ids=repr)
def test_only_a_lack_of_the_machine_is_nondeterministic(error, code):
    failure = classify(error, "cubin", None)
    assert (failure.code, failure.deterministic) == (code, False)


def complaints():
    return json.loads((ROOT / "tests" / "vectors" / "ptxas_complaints.json").read_text())["cases"]


@pytest.mark.parametrize("case", complaints(), ids=lambda case: case["log"][:40])
def test_both_workers_read_ptxas_complaints_alike(case):
    log = case["log"]
    failure = ptxas_failure(f"`ptxas` failed with error code 255\n`ptxas` stderr:\n{log}\nRepro command: ptxas x.ptx\n", "cubin")
    assert (failure.code, failure.deterministic) == (case["code"], case["deterministic"])
    if "message" in case:
        assert str(failure) == case["message"]


PREPARE = FIND_PACKAGE + """
import hashlib, json, os, socket
from kiln_triton_worker.compiler import Compiler
from kiln_triton_worker.elf import is_whole_elf
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.warm_kernel import WARM_KERNEL, request_for
from kiln_triton_worker.worker import Worker
compiler = Compiler()
request = request_for("cuda", "90")

# The header of a worker's answer, as the daemon gets it.
def answer(source, **fields):
    ours, its = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    with ours, its:
        Worker(compiler, its, {"limits": {}})._compile(1, {**request, **fields}, source.encode())
        its.close()
        frame = b"".join(iter(lambda: ours.recv(1 << 20), b""))
    size = int.from_bytes(frame[8:12], "little")
    assert size <= 2 << 20, size
    return json.loads(frame[24:24 + size])
"""


def in_triton(script, *arguments, directory):
    """Runs a script in the toolchain's own Python, with a compiler and a request of the worker's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    # A file, out of which a worker reads what the compiler said.
    with open(directory / "stderr", "w+") as stderr:
        ran = subprocess.run([TOOLCHAIN / "bin" / "python", "-B", "-c", PREPARE + script, *arguments], cwd=directory, env=environment,
                             stderr=stderr)
        stderr.seek(0)
        assert ran.returncode == 0, stderr.read()


def test_a_compile_in_a_context_that_was_made_ahead_gives_the_same(tmp_path):
    in_triton("""
def stages():
    return [content for _, content, _ in compiler.compile(request, WARM_KERNEL.encode())[0]]
first = stages()
compiler.prepare("cuda", "90")
made = compiler._contexts["cuda"]
assert stages() == first
assert compiler._context_in_use is made and not compiler._contexts
assert stages() == first
""", directory=tmp_path)


# Before Triton 3.6 a context that has compiled has threads. In versions since, only its absence shows.
def test_a_warm_compiler_has_no_threads_and_keeps_no_context_that_compiled(tmp_path):
    in_triton("""
from kiln_triton_worker.warm_kernel import warm
assert warm(compiler, ("cuda",)) == {"cuda:90": "", "cuda:100": ""}
assert compiler._context_in_use is None and list(compiler._contexts) == ["cuda"]
assert os.listdir("/proc/self/task") == [str(os.getpid())]
""", directory=tmp_path)


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


def test_a_ptxas_that_triton_does_not_take_is_refused(tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\nexit 1\n")
    in_triton("""
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
""", ptxas, directory=tmp_path)


def test_the_trailer_of_a_module_names_its_loops_variables(tmp_path):
    in_triton("""
def stages(source):
    return {stage: content.decode() for stage, content, _ in compiler.compile(request, source.encode())[0] if stage in ("ttgir", "ptx")}
plain, told = map(stages, sys.argv[1:])
assert all(name in told["ttgir"] and name not in plain["ttgir"] for name in ("%turn", "%sum")), told
assert plain["ptx"] == told["ptx"]
assert os.listdir() == ["stderr"], os.listdir()
""", LOOP, with_origins(ORIGINS), directory=tmp_path)


@pytest.mark.parametrize("origins, why", [
    (ORIGINS[:3], "they are 3, and its blocks have 4 arguments"), ([*ORIGINS, "unknown"], "they are 5, and"), ([], "something else among them"),
    ([*ORIGINS[:3], "unknown)\n// x("], "something else among them"), ([*ORIGINS[:3], "nothing"], "no. 4 cannot be read (expected location instance)"),
    ([*ORIGINS[:3], "unknown) arith.constant true loc(unknown"], "something else among them"),
    ([*ORIGINS[:3], "unknown) } module { arith.constant true loc(unknown"], "something else among them")])
def test_the_trailer_of_another_module_is_refused(tmp_path, origins, why):
    in_triton("""
said = answer(sys.argv[1])
assert said["outcome"] == "failed", said
assert (said["failure"]["code"], said["failure"]["deterministic"]) == ("invalid_argument", True), said
assert sys.argv[2] in said["failure"]["message"], said
assert answer(WARM_KERNEL)["outcome"] == "compiled"
""", with_origins(origins), why, directory=tmp_path)


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: text + "\n \n"])
def test_ends_of_lines_make_no_difference_to_what_stands_behind_a_module(tmp_path, change):
    in_triton("""
assert b"%turn" in dict((stage, content) for stage, content, _ in compiler.compile(request, sys.argv[1].encode())[0])["ttgir"]
""", change(with_origins(ORIGINS)), directory=tmp_path)


@pytest.mark.parametrize("module", ["compiler", "origins"])
def test_a_source_that_the_worker_cannot_open_is_not_the_sources_fault(tmp_path, module):
    in_triton("""
import importlib
importlib.import_module("kiln_triton_worker." + sys.argv[2]).open = lambda path, *more, **named: open(os.devnull, *more, **named)
failure = answer(sys.argv[1])["failure"]
assert (failure["code"], failure["deterministic"]) == ("internal", False), failure
""", with_origins(ORIGINS), module, directory=tmp_path)


def test_a_full_disk_is_not_a_failure_of_the_source(tmp_path):
    (tmp_path / "kernel.ttir").symlink_to("/dev/full")
    in_triton("""
said = answer(WARM_KERNEL)
assert said["outcome"] == "failed", said
assert (said["failure"]["code"], said["failure"]["deterministic"]) == ("unavailable", False), said
assert "No space left" in said["failure"]["message"], said
os.unlink("kernel.ttir")
assert answer(WARM_KERNEL)["outcome"] == "compiled"
""", directory=tmp_path)


def test_a_fork_that_fails_costs_the_zygote_nothing(monkeypatch):
    def refuse():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        Zygote(None, None, None)._fork({}, -1, -1)
    assert os.listdir("/proc/self/fd") == before


# What a local compile accepts comes back, and what it refuses is refused in its own words, however long or odd.
def test_text_over_the_daemons_limit_is_cut(tmp_path):
    in_triton("""
def kernel(parameters, body="", name="k"):
    return "module {\\n  tt.func public @%s(%s) {\\n    %s\\n    tt.return\\n  }\\n}\\n" % (name, parameters, body)

def names(said):
    assert said["outcome"] == "compiled", said
    return [name for name, _ in said["kernel"]["parameters"]]

assert names(answer(kernel("%" + 2000 * "x" + ": i32, %n: i32"))) == ["", "n"]
many = names(answer(kernel("%n: i32"), parameters=[[str(i) + 397 * "\xe9", "i32"] for i in range(1)]))
assert many == ["0" + 397 * "\xe9"], many
said = answer(kernel(", ".join(f"%a{i}: i32" for i in range(1000))), parameters=[[f"{i:04}" + 398 * "\xe9", "i32"] for i in range(1000)])
assert names(said)[999] == "0999" + 398 * "\xe9"

wrong = "%r = tt.make_range {end = 100 : i32, start = 0 : i32} : tensor<100xi32>"
for place, taken in (("3:1", (3, 1)), ("4294967295:1", (0, 1)), ("1:4294967295", (1, 0))):
    said = answer(kernel("%x: i32", f'{wrong} loc("kernel.ttir":{place})'))
    assert said["failure"]["code"] == "invalid_argument", said
    assert (said["failure"]["line"], said["failure"]["column"]) == taken, said

said = answer(kernel("%x: i32", name='"\\\\FFk"'))
assert said["failure"]["code"] == "invalid_argument" and "not UTF-8" in said["failure"]["message"], said
""", directory=tmp_path)


def replies():
    return json.loads((ROOT / "tests" / "vectors" / "worker_replies.json").read_text("utf-8"))


@pytest.mark.parametrize("groups", replies()["parameter_names"], ids=str)
def test_names_are_left_out_as_the_native_worker_leaves_them_out(groups):
    names = ["a" * group["bytes"] for group in groups for _ in range(group["names"])]
    expected = ["a" * group["bytes"] if i < group["kept"] else "" for group in groups for i in range(group["names"])]
    assert without_long_names(names) == expected


@pytest.mark.parametrize("case", replies()["places"], ids=str)
def test_places_are_those_of_the_native_worker(case):
    said = Failure("invalid_argument", "parse", "x", case["given"], case["given"]).to_json()
    assert (said["line"], said["column"]) == (case["said"], case["said"])


@pytest.mark.parametrize("case", replies()["outputs"], ids=lambda case: case["text"])
def test_output_is_cut_as_by_the_native_worker(case):
    whole = case["text"] * case["times"] + case["end"]
    said = Failure("invalid_argument", "parse", "x", output=whole).to_json()["output"]
    assert whole.endswith(said) and len(said.encode()) == case["bytes"]


@pytest.mark.parametrize("case", replies()["descriptions"], ids=str)
def test_a_description_is_too_large_where_it_is_for_the_native_worker(case):
    kernel = {"name": "k", "parameters": [], "toolchain_metadata": "", "cluster_dims": [1, 1, 1], **dict.fromkeys(COUNTS_MAX, 1)}
    if case["field"] == "parameters":
        kernel["parameters"] = [["n" * case["name_bytes"], "u64"]] * case["size"]
    else:
        kernel[case["field"]] = "n" * case["size"]
    try:
        outcome = compiled_reply([("cubin", b"binary", 1)], kernel)[0]["outcome"]
    except Failure as failure:
        outcome = "failed"
        assert failure.code == "resource_exhausted" and failure.deterministic
    assert outcome == case["outcome"]


def test_words_of_the_source_are_no_usage():
    text = "; .vgpr_count: 123456789\n; .vgpr_spill_count: 12345678901\n    .vgpr_count:     17\n    .vgpr_spill_count: 2\n"
    assert amdgcn_usage(text) == (17, 8)


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
