"""Compiles every example kernel twice over: by the daemon, and by Triton itself in fresh processes.

KILN_TEST_GOLDEN_TARGETS says for which targets ("cuda:90 hip:gfx942"); without it, for all six.
"""

import json
import os
import subprocess

import pytest

from daemon import Daemon
from golden import Case, Golden
from places import KERNELS, TOOLCHAIN

# What tests/kernels/lower.py is told for each kind of comparison (golden.py says what they are).
LOWERING = {"located": (), "stripped": ("--strip-locations",)}
TARGETS = ["--targets", ",".join(os.environ["KILN_TEST_GOLDEN_TARGETS"].split())] if "KILN_TEST_GOLDEN_TARGETS" in os.environ else []
# Every stage of each backend: a stage that a kernel's backend does not have would be an error.
EMIT = {"cuda": "ttgir,llir,ptx,cubin", "hip": "ttgir,llir,amdgcn,hsaco"}


def pytest_generate_tests(metafunc):
    for fixture, backend in (("case", ""), ("cuda_case", "cuda"), ("hip_case", "hip")):
        if fixture in metafunc.fixturenames:
            cases = [case for case in _cases() if case.target.startswith(backend)]
            metafunc.parametrize(fixture, cases, ids=[case.name for case in cases])


_listed = []


def _cases():
    if not _listed:
        command = [TOOLCHAIN / "bin" / "python", "-B", KERNELS / "lower.py", "--list", *TARGETS]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        _listed.extend(Case(**json.loads(line)) for line in printed.splitlines())
    return _listed


@pytest.fixture(scope="session")
def golden(programs, start_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    lowering = [
        start_with_triton("lower.py", "--out", folder / kind, *TARGETS, *arguments) for kind, arguments in LOWERING.items()
    ]
    for process in lowering:
        process.finish()

    answers = {}
    with Daemon(programs, folder) as daemon:
        for kind in LOWERING:
            for name, stages in EMIT.items():
                requests = _requests_of(folder / kind, name)
                answers[kind, name] = daemon.kiln(
                    "compile", "--requests", requests, "--emit", stages, "-o", folder / kind / "kiln", "--json"
                )

    parts = len(os.sched_getaffinity(0))
    sources = {"located": (), "stripped": ("--requests", folder / "stripped" / "requests.jsonl")}
    for kind, source in sources.items():
        references = [
            start_with_triton("reference.py", "--out", folder / kind / "reference", "--part", f"{part}/{parts}", *TARGETS, *source)
            for part in range(parts)
        ]
        for process in references:
            process.finish()

    def compile_again(kind, case, out):
        source = sources[kind]
        start_with_triton(
            "reference.py", "--kernels", case.kernel, "--targets", case.target, "--out", out, *source
        ).finish()

    return Golden(folder, answers, compile_again)


def _requests_of(folder, backend):
    """A file with those of the folder's requests that are for one backend."""
    lines = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    path = folder / f"{backend}.jsonl"
    path.write_text("".join(line for line in lines if json.loads(line)["target"].startswith(backend)))
    return path
