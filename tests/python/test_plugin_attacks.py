"""Programs that change what they have of Triton, or the files that it reads: a job with kiln.triton gets what it would get without."""

import json
import os
import shutil
import subprocess

import pytest

from job import Job
from places import ROOT, TOOLCHAIN

ATTACKED_JOB = ROOT / "tests" / "testing" / "jobs" / "attacked_job.py"
PYTHON = TOOLCHAIN / "bin" / "python"
# Text, which LLVM reads as well.
OTHER_LIBDEVICE = "define float @__nv_expf(float %x) {\n  ret float 4.200000e+01\n}\n"
CHANGES = (
    "a hook that edits the PTX", "a hook that edits the PTX first", "a hook that looks at modules", "a hook that hands on a copy",
    "a hook with a method of its own", "a hook with options of its own", "defaults", "keyword defaults", "code", "defaults of a kernel", "a method",
    "a method that looks like the first", "instrumentation", "another ptxas of Triton's", "a libdevice whose path begins as Triton's", "a list",
    "a print")


def run(folder, root, *attacks, site=None, **variables):
    """The job's answers, by attack."""
    cache = f"cache-{len(list(folder.iterdir()))}"
    (folder / cache).mkdir()
    environment = {**Job(folder, PYTHON, root, cache).environment, "KILN_TIMEOUT": "120", **variables}
    if site is not None:
        environment["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run([PYTHON, "-B", ATTACKED_JOB, *attacks], env=environment, capture_output=True, text=True, timeout=300, check=True)
    answers = dict(zip(attacks, map(json.loads, done.stdout.splitlines())))
    assert len(answers) == len(attacks) and not any("failed" in answer for answer in answers.values()), (answers, done.stderr)
    return answers


def without_count(answer):
    return {name: value for name, value in answer.items() if name != "served"}


@pytest.fixture(scope="module")
def answers(daemon, tmp_path_factory):
    """Without the daemon, and twice with it: it has every kernel as it is before anything is changed. And of each kernel as it is."""
    folder = tmp_path_factory.mktemp("attacked")
    libdevice = folder / "libdevice.bc"
    libdevice.write_text(OTHER_LIBDEVICE)
    made = [run(folder, root, "none", *CHANGES, LIBDEVICE=str(libdevice)) for root in (None, daemon.root, daemon.root)]
    return [*made, run(folder, daemon.root, "none")]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_program_changes_decides_what_it_gets(answers, change):
    stock, *with_kiln, _ = answers
    assert stock[change]["made"] not in stock["none"]["made"] or stock[change]["seen"], "the change changes nothing"
    assert [without_count(one[change]) for one in with_kiln] == [without_count(stock[change])] * 2


def test_what_a_program_has_changed_is_not_kept_for_others(answers):
    stock, *with_kiln, afterwards = (one["none"] for one in answers)
    assert [one["made"] for one in (*with_kiln, afterwards)] == [stock["made"]] * 3 and afterwards["served"] == len(stock["made"])
