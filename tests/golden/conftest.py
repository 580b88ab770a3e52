"""Compiles every example kernel twice over: by the daemon, and by Triton itself in fresh processes.

KILN_TEST_GOLDEN_TARGETS says for which targets ("cuda:90 hip:gfx942"); without it, for all six. KILN_TEST_GOLDEN_KEPT names a
folder that keeps what Triton made of the Python functions; without it, Triton compiles them each time.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from daemon import Daemon
from golden import UNSTEADY, Case, Golden
from places import DESCRIPTIONS, KERNELS, TOOLCHAIN

TARGETS = ["--targets", ",".join(os.environ["KILN_TEST_GOLDEN_TARGETS"].split())] if "KILN_TEST_GOLDEN_TARGETS" in os.environ else []
KEPT = os.environ.get("KILN_TEST_GOLDEN_KEPT")
# Every stage of each backend: a stage that a kernel's backend does not have would be an error.
EMIT = {"cuda": "ttgir,llir,ptx,cubin", "hip": "ttgir,llir,amdgcn,hsaco"}


def pytest_generate_tests(metafunc):
    for fixture, backend in (("case", ""), ("cuda_case", "cuda"), ("hip_case", "hip")):
        if fixture in metafunc.fixturenames:
            cases = [case for case in _cases() if case.target.startswith(backend)]
            metafunc.parametrize(fixture, [pytest.param(case, id=case.name, marks=_marks(case)) for case in cases])


def _marks(case):
    """Triton compiles an unsteady case again, up to 64 times."""
    return [pytest.mark.slow] if (case.kernel, case.target) in UNSTEADY else []


_listed = []


def _cases():
    if not _listed:
        command = [TOOLCHAIN / "bin" / "python", "-B", KERNELS / "lower.py", "--list", *TARGETS]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        _listed.extend(Case(**json.loads(line)) for line in printed.splitlines())
    return _listed


@pytest.fixture(scope="session")
def golden(programs, start_with_triton, tmp_path_factory):
    """The TTIR as the plug-in sends it, against Triton's compile of the Python function."""
    folder = tmp_path_factory.mktemp("golden")
    answers = _compile(programs, start_with_triton, folder)
    reference = _Reference(start_with_triton)
    kept = pathlib.Path(KEPT, _name_of_references()) if KEPT else folder / "none"
    if kept.is_dir():
        shutil.copytree(kept, folder / "reference")
    else:
        reference.compile_all(folder / "reference")
    if KEPT and not kept.is_dir():
        for older in kept.parent.glob(kept.name.split("-")[0] + "-*"):
            shutil.rmtree(older)
        os.rename(shutil.copytree(folder / "reference", f"{kept}.{os.getpid()}"), kept)
    return Golden(folder, answers, reference)


def _compile(programs, start_with_triton, folder):
    """Lowers the kernels and compiles them through a daemon; what kiln said, by backend."""
    start_with_triton("lower.py", "--out", folder, *TARGETS, "--locations", "plug-in").finish()
    with Daemon(programs, folder, descriptions=DESCRIPTIONS) as daemon:
        return {
            name: daemon.kiln("compile", "--requests", _requests_of(folder, name), "--emit", stages, "-o", folder / "kiln", "--json")
            for name, stages in EMIT.items()
        }


def _requests_of(folder, backend):
    """A file with those of the folder's requests that are for one backend."""
    lines = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    path = folder / f"{backend}.jsonl"
    path.write_text("".join(line for line in lines if json.loads(line)["target"].startswith(backend)))
    return path


def _name_of_references():
    """The checkout, and everything that decides what Triton makes: the kernels, the targets and the installation."""
    digest = hashlib.sha256()
    for path in sorted(KERNELS.glob("**/*.py")):
        digest.update(f"{path}\0".encode() + path.read_bytes())
    installation = TOOLCHAIN.resolve()
    digest.update(f"{TARGETS} {installation} {installation.stat().st_mtime_ns}".encode())
    return f"{hashlib.sha256(bytes(KERNELS)).hexdigest()[:16]}-{digest.hexdigest()[:16]}"


class _Reference:
    """Triton itself, in fresh processes."""

    def __init__(self, start_with_triton):
        self._start = start_with_triton

    def compile_all(self, out):
        parts = len(os.sched_getaffinity(0))
        processes = [self._start("reference.py", "--out", out, "--part", f"{part}/{parts}", *TARGETS) for part in range(parts)]
        for process in processes:
            process.finish()

    def compile_again(self, case, out):
        self._start("reference.py", *_only(case), "--out", out).finish()

    def assemble_again(self, case, made, out, times):
        self._start("reference.py", *_only(case), "--out", out, "--assemble", made, "--times", times).finish()


def _only(case):
    return "--kernels", case.kernel, "--targets", case.target
