"""Line tables say neither when the files were written that a source names, nor how long they are, nor whether they exist."""

import contextlib
import dataclasses
import glob
import json
import os
import pathlib
import shlex
import struct
import time

import pytest

from daemon import Daemon
from elf import Elf
from places import CUDA, DESCRIPTIONS, TOOLCHAIN, TOOLCHAINS
from test_hostile_clients import folder, needs_root  # noqa: F401

SERVICE = 60_000
# The toolchain may lie where only root comes.
KILND = """#!/bin/sh
[ -n "$IS_APART" ] || IS_APART=1 exec unshare --mount "$0" "$@"
mount --bind {toolchain} {here} &&
exec setpriv --reuid={uid} --regid={uid} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs {kilnd} "$@"
"""
KILN = """#!/bin/sh
exec {kiln} --server-uid={uid} "$@"
"""
PTX = """.version 8.0
.target sm_90
.address_size 64
{files}
.visible .entry k(.param .u64 p)
{{
	.reg .b64 %rd1;
	ld.param.u64 %rd1, [p];
{lines}
	ret;
}}
"""
TTIR = """module {{
  tt.func public @k(%x: !tt.ptr<i32>) {{
    %c = arith.constant 1 : i32
{lines}
    tt.return
  }}
}}
"""
CUDA_SOURCE = """#include <cuda/std/array>
extern "C" __global__ void k(volatile int* x) {{
  cuda::std::array<int, 4> a{{{{1, 2, 3, 4}}}};
  x[9] = a[x[8] & 3];
{lines}
}}
"""


def from_ptx(files):
    return PTX.format(files="\n".join(f'.file {n} "{file}"' for n, file in enumerate(files, 1)),
                      lines="\n".join(f"\t.loc {n} 1 1\n\tst.global.u64 [%rd1], {n};" for n, _ in enumerate(files, 1)))


def from_ttir(files):
    return TTIR.format(lines="\n".join(f'    tt.store %x, %c {{isVolatile = true}} : !tt.ptr<i32> loc(callsite("f"("{file}":{n}:1) at "kernel.py":1:1))'
                                       for n, file in enumerate(files, 1)))


def from_cuda(files):
    return CUDA_SOURCE.format(lines="\n".join(f'#line {n} "{file}"\n  x[{n}] = {n};' for n, file in enumerate(files, 1)))


KINDS = {
    "ptx": (from_ptx, {"options": {"generate-line-info": True}}),
    "ttir": (from_ttir, {}),
    "cuda": (from_cuda, {"options": {"generate-line-info": True}}),
}


@pytest.fixture(scope="module")
def daemon(programs, tmp_path_factory):
    directories = {"KILN_TOOLCHAIN_DIRECTORIES": f"{TOOLCHAINS}:{CUDA}"}
    with Daemon(programs, tmp_path_factory.mktemp("lines"), environment=directories, descriptions=DESCRIPTIONS) as running:
        yield running


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def service(programs, folder):  # noqa: F811
    here, root = folder / "toolchain", folder / "root"
    for made in (here, root):
        made.mkdir()
    os.chown(root, SERVICE, SERVICE)
    named = {"toolchain": TOOLCHAIN, "here": here, "uid": SERVICE, "kilnd": programs.kilnd, "kiln": programs.kiln}
    quoted = {name: shlex.quote(str(value)) for name, value in named.items()}
    apart = dataclasses.replace(programs, kilnd=script(folder / "kilnd", KILND.format(**quoted)), kiln=script(folder / "kiln", KILN.format(**quoted)),
                                toolchains=here)
    with Daemon(apart, folder) as daemon:
        yield daemon


@pytest.fixture
def files(tmp_path):
    """What a user of the daemon would like to know more about; some of these the assembler itself has to read."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("words")
    public = tmp_path / "public"
    public.write_text("more words")
    language = next((TOOLCHAIN / "lib").glob("python*/site-packages/triton/language/standard.py"))
    return [private / "secret", private / "missing", public, language, "/lib64/ld-linux-x86-64.so.2", os.__file__, "kernel.ptx", "."]


def compile_source(daemon, folder, kind, files):
    text, more = KINDS[kind]
    folder.mkdir()
    request = folder / "request.jsonl"
    request.write_text(json.dumps({"name": "k", "kind": kind, "target": "cuda:90", "source": text(files), **more}) + "\n")
    answer, *_ = daemon.kiln("compile", "--requests", request, "--json", "-o", folder / "out").objects()
    assert answer["outcome"] == "compiled", answer
    return (folder / "out" / "k.cubin").read_bytes()


def leb128(table, at):
    value = shift = 0
    while True:
        byte = table[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def text_at(table, at):
    end = table.index(b"\0", at)
    return table[at:end].decode(), end + 1


def files_of(cubin):
    """{name: (time, size)} of the line table, which is of DWARF 2."""
    [table] = [section.content for section in Elf(cubin).sections if section.name == ".debug_line"]
    (version, ), opcodes = struct.unpack_from("<H", table, 4), table[14]
    assert version == 2
    at, found = 15 + opcodes - 1, {}
    while table[at] != 0:
        _, at = text_at(table, at)
    at += 1
    while table[at] != 0:
        name, at = text_at(table, at)
        _, at = leb128(table, at)
        time, at = leb128(table, at)
        size, at = leb128(table, at)
        found.setdefault(name, (time, size))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_line_tables_have_neither_time_nor_size_of_any_file(daemon, files, kind, tmp_path):
    found = files_of(compile_source(daemon, tmp_path / "made", kind, files))
    assert {"secret", "missing", "public", "standard.py", "ld-linux-x86-64.so.2", "os.py"} <= found.keys(), found
    assert set(found.values()) == {(0, 0)}, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_comes_changes_no_binary(daemon, files, kind, tmp_path):
    before = compile_source(daemon, tmp_path / "before", kind, files)
    (files[0].parent / "missing").write_text("now it is there")
    os.utime(files[2], (1, 1))
    daemon.kiln("evict", "--all")
    assert compile_source(daemon, tmp_path / "after", kind, files) == before


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("kind", ["ptx", "ttir"])
def test_line_tables_of_a_service_without_privileges_have_neither(service, files, kind, tmp_path):
    assert set(files_of(compile_source(service, tmp_path / "made", kind, files)).values()) == {(0, 0)}
    check_roots(service, files)


@pytest.mark.slow
def test_every_worker_has_a_root_of_its_own(daemon, files, tmp_path):
    for kind in KINDS:
        compile_source(daemon, tmp_path / kind, kind, files)
    check_roots(daemon, files)


def check_roots(daemon, files):
    """Where this machine allows it: what is left for a spare worker is what its jail names."""
    doctor = daemon.kiln("doctor").out
    if "no tmpfs for each worker" in doctor:
        pytest.skip(f"no mount namespaces here: {doctor}")
    roots = {}
    deadline = time.monotonic() + 60
    while not roots and time.monotonic() < deadline:
        for root in (f"/proc/{pid}/root" for pid in descendants(daemon.pid)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                names = set(os.listdir(root))
                if "proc" not in names:
                    roots[root] = names
    assert roots, doctor
    for root, names in roots.items():
        assert not {"home", "boot", "var"} & names, names
        assert not os.path.exists(f"{root}{files[2]}") and not os.path.exists(f"{root}{daemon.root}/state"), names


def descendants(pid):
    found, parents = [], [str(pid)]
    while parents:
        for file in glob.glob(f"/proc/{parents.pop()}/task/*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                children = pathlib.Path(file).read_text().split()
                found += children
                parents += children
    return found
