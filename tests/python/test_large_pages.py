"""What makes the forks of a Triton's zygote cheaper: libtriton in large pages, and a heap that is all free."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from kiln_triton_worker import large_pages
from places import TOOLCHAIN, WORKER

JEMALLOC = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
SETTING = pathlib.Path(large_pages.SETTING)
KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
needs_large_pages = pytest.mark.skipif(not SETTING.exists() or "[never]" in SETTING.read_text(), reason="this machine has no large pages")

FIND_PACKAGE = f"import sys; sys.path.insert(0, {str(WORKER)!r})\n"
FORKS = FIND_PACKAGE + """
import hashlib, json, os, resource
from kiln_triton_worker.compiler import Compiler
from kiln_triton_worker.large_pages import FreshHeap, move_library
from kiln_triton_worker.warm_kernel import WARM_KERNEL, request_for

compiler = Compiler()

# The page faults of a compile in a fork, and the digest of the binary.
def compile_in_fork(prepare):
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        prepare()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        stages, _ = compiler.compile(request_for("cuda", "90"), WARM_KERNEL.encode())
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        os.write(write_end, json.dumps([faults, hashlib.sha256(stages[-1][1]).hexdigest()]).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read_end, 1000))

compiler.compile(request_for("cuda", "90"), WARM_KERNEL.encode())
plain = compile_in_fork(lambda: None)
move_library(compiler.toolchain.library)
with_library = compile_in_fork(lambda: None)
heap = FreshHeap()
with_both = compile_in_fork(heap.enter)
print(json.dumps([plain, with_library, with_both]))
"""


def run(script, folder, python=sys.executable, **environment):
    ran = subprocess.run([python, "-B", "-c", script], cwd=folder, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **environment})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@needs_large_pages
@pytest.mark.skipif(JEMALLOC is None, reason="there is no jemalloc")
def test_a_fork_compiles_the_same_with_half_the_page_faults(tmp_path):
    environment = {"LD_PRELOAD": str(JEMALLOC), "MALLOC_CONF": "narenas:1,thp:always,metadata_thp:always"}
    (plain, binary), *others = json.loads(run(FORKS, tmp_path, TOOLCHAIN / "bin" / "python", **environment))
    assert [made for _, made in others] == [binary, binary]
    (with_library, _), (with_both, _) = others
    assert with_library < plain - 300
    assert with_both < plain / 2


@needs_large_pages
def test_another_malloc_stays_as_it_is(tmp_path):
    (_, binary), (with_library, _), (with_both, same) = json.loads(run(FORKS, tmp_path, TOOLCHAIN / "bin" / "python"))
    assert same == binary
    assert with_both > with_library / 2


@needs_large_pages
@pytest.mark.skipif(KERNEL < (6, 1), reason="this kernel gathers no pages")
def test_what_was_allocated_is_gathered_and_the_rest_stays_without_memory(tmp_path):
    said = json.loads(run(FIND_PACKAGE + """
import ctypes, json, mmap, pathlib
from kiln_triton_worker.large_pages import LARGE_PAGE, MADV_COLLAPSE, gather_heap


def held(name):
    lines = pathlib.Path("/proc/self/smaps").read_text().split(begin, 1)[1].splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10


memory = mmap.mmap(-1, 6 * LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
memory.madvise(mmap.MADV_NOHUGEPAGE)
begin = f"{address:x}-"
first = -address % LARGE_PAGE
for offset in range(first, first + 2 * LARGE_PAGE, mmap.PAGESIZE):
    memory[offset] = 1
memory.madvise(mmap.MADV_HUGEPAGE)
before = held("AnonHugePages")  # in small pages
gather_heap()
said = [before, held("AnonHugePages"), held("Rss"), memory[:].count(1)]
probe = mmap.mmap(-1, 2 * LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
probe[:] = b"1" * len(probe)
page = -ctypes.addressof(ctypes.c_char.from_buffer(probe)) % LARGE_PAGE
try:
    probe.madvise(MADV_COLLAPSE, page, LARGE_PAGE)
except OSError as error:
    said += [str(error)]
print(json.dumps(said))
""", tmp_path))
    if len(said) > 4:
        pytest.skip(f"the kernel has no large page now: {said[4]}")
    assert said == [0, 2 * large_pages.LARGE_PAGE, 2 * large_pages.LARGE_PAGE, 1024]


# The kernel may forbid that memory becomes code.
@needs_large_pages
def test_code_that_may_not_move_stays_where_it_is(tmp_path):
    library = next((TOOLCHAIN / "lib").resolve().glob("python*/site-packages/triton/_C/libtriton.so"))
    script = FIND_PACKAGE + f"""
import ctypes
from kiln_triton_worker.large_pages import LIBC, move_library
from triton._C.libtriton import ir
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
def code():
    with open("/proc/self/maps") as maps:
        return [line for line in maps if " r-xp " in line and {str(library)!r} in line]
before = code()
assert before
if LIBC.prctl(PR_SET_MDWE, ctypes.c_ulong(REFUSE_EXEC_GAIN), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) == 0:
    try:
        move_library({str(library)!r})
    except PermissionError:
        assert code() == before
        ir.load_dialects(ir.context())
        print("stayed")
else:
    print("not to be forbidden")
"""
    said = run(script, tmp_path, TOOLCHAIN / "bin" / "python")
    if said == "not to be forbidden\n":
        pytest.skip("this kernel cannot forbid it")
    assert said == "stayed\n"
