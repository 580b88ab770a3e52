"""Programs that change what they have of Triton, or the files that it reads: a job with kiln.triton gets what it would get without."""

import json
import os
import shutil
import subprocess
import time

import pytest

from job import Job
from places import ROOT, TOOLCHAIN

pytestmark = pytest.mark.one_case

ATTACKED_JOB = ROOT / "tests" / "testing" / "jobs" / "attacked_job.py"
PYTHON = TOOLCHAIN / "bin" / "python"
# Text, which LLVM reads as well.
OTHER_LIBDEVICE = "define float @__nv_expf(float %x) {\n  ret float 4.200000e+01\n}\n"
CHANGES = (
    "a hook that edits the PTX", "a hook that edits the PTX first", "a hook that looks at modules", "a hook that hands on a copy",
    "a hook with a method of its own", "a hook with options of its own", "defaults", "keyword defaults", "code", "defaults of a kernel",
    "another function of libdevice", "another libdevice", "a list of Triton's", "another list in Triton's place", "a method",
    "a method that looks like the first", "instrumentation", "another ptxas of Triton's", "a libdevice whose path begins as Triton's", "a list",
    "a print")
FEW = tuple(f"{free} free descriptors" for free in range(2, 6))


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
    return {name: value for name, value in answer.items() if name not in ("served", "found")}


@pytest.fixture(scope="module")
def answers(daemon, tmp_path_factory):
    """Without the daemon, and twice with it: it has every kernel as it is before anything is changed. And of each kernel as it is."""
    folder = tmp_path_factory.mktemp("attacked")
    libdevice = folder / "libdevice.bc"
    libdevice.write_text(OTHER_LIBDEVICE)
    made = [run(folder, root, "none", *CHANGES, LIBDEVICE=str(libdevice)) for root in (None, daemon.root, daemon.root)]
    return [*made, run(folder, daemon.root, "none")]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_values_that_a_program_changes_decide_the_result(answers, change):
    stock, *with_kiln, _ = answers
    assert stock[change]["made"] not in stock["none"]["made"] or stock[change]["seen"], "the change changes nothing"
    assert [without_count(one[change]) for one in with_kiln] == [without_count(stock[change])] * 2


@pytest.mark.slow
def test_kernels_of_a_changed_triton_are_not_shared(answers):
    stock, *with_kiln, afterwards = (one["none"] for one in answers)
    assert [one["made"] for one in (*with_kiln, afterwards)] == [stock["made"]] * 3 and afterwards["served"] == len(stock["made"])


@pytest.mark.slow
def test_a_kernel_that_is_found_warns_as_one_that_is_lowered(other_daemon, tmp_path):
    """The first job keeps it, which itself says nothing. The last one makes errors of warnings."""
    actions = [f"warnings: {action}" for action in ("ignore", "always", "error")]
    stock = run(tmp_path, None, *actions)
    with other_daemon:
        with_kiln = run(tmp_path, other_daemon.root, *actions)
    ignored, said, raised = (stock[action] for action in actions)
    assert not ignored["seen"] and {category for _, category, *_ in said["seen"]} == {"UserWarning"}, stock
    assert {os.path.basename(file) for _, _, file, _ in said["seen"]} == {"core.py", "attacked_job.py"}, said
    assert "UserWarning" in raised["made"], raised
    assert [without_count(with_kiln[action]) for action in actions] == [without_count(stock[action]) for action in actions]
    assert [with_kiln[action]["found"] for action in actions] == [0, 1, 0], with_kiln


@pytest.mark.slow
def test_few_descriptors_suffice_with_kiln_where_they_do_without(daemon, tmp_path):
    stock, first, second = (run(tmp_path, root, *FEW) for root in (None, daemon.root, daemon.root))
    enough = [few for few in FEW if not isinstance(stock[few]["made"], str)]
    assert 0 < len(enough) < len(FEW)
    assert [one[few]["made"] for one in (first, second) for few in enough] == [stock[few]["made"] for few in enough] * 2


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with a Triton of links to another's files, but for two that are its own."""
    there, = (TOOLCHAIN / "lib").glob("python3*/site-packages")
    here = tmp_path_factory.mktemp("site")
    for information in there.glob("triton*.dist-info"):
        (here / information.name).symlink_to(information)
    shutil.copytree(there / "triton", here / "triton", copy_function=lambda file, copy: os.symlink(file, copy),
                    ignore=shutil.ignore_patterns("__pycache__"))
    for own in "ptxas", "libdevice.10.bc":
        file, = (here / "triton" / "backends" / "nvidia").rglob(own)
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
        file.chmod(0o755)
    return here


@pytest.mark.slow
@pytest.mark.parametrize("name, other", [("bin/ptxas", "bin/ptxas-blackwell"), ("lib/libdevice.10.bc", "")])
def test_a_file_that_is_exchanged_under_a_job_is_the_one_that_is_read(daemon, site, tmp_path, name, other):
    nvidia = site / "triton" / "backends" / "nvidia"
    first = (nvidia / name).read_bytes()
    run(tmp_path, daemon.root, "none", site=site)  # from now on the daemon has each kernel

    def made(root):
        (tmp_path / "other").write_bytes((nvidia / other).read_bytes() if other else OTHER_LIBDEVICE.encode())
        (tmp_path / "other").chmod(0o755)
        try:
            return run(tmp_path, root, "an exchanged file", site=site, OTHER=str(tmp_path / "other"), EXCHANGED=str(nvidia / name))
        finally:
            (tmp_path / "first").write_bytes(first)
            (tmp_path / "first").chmod(0o755)
            (tmp_path / "first").rename(nvidia / name)
            time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # the next program starts in a later tick of the clock

    stock, with_kiln = (made(root)["an exchanged file"] for root in (None, daemon.root))
    assert without_count(with_kiln) == without_count(stock) and with_kiln["served"] == 2


# Last: it takes the file from the folder.
def test_a_triton_without_an_assembler_for_blackwell_has_the_other_one(site, tmp_path):
    blackwell = site / "triton" / "backends" / "nvidia" / "bin" / "ptxas-blackwell"
    blackwell.unlink()
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # the next program starts in a later tick of the clock
    environment = Job(tmp_path, PYTHON, None, "cache").environment
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    script = "import json; from kiln._plugin import identity; print(json.dumps(identity.assemblers()))"
    done = subprocess.run([PYTHON, "-B", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {str(blackwell.with_name("ptxas")): ""}
