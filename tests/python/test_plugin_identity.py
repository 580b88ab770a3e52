"""Which Triton the plug-in takes for the process's own. Installed ones, no daemon."""

import json
import os
import subprocess
import time

import pytest

from job import package_environment
from kiln._plugin import identity
from places import ROOT, TOOLCHAINS, VERSIONS

_JOB = ROOT / "tests" / "testing" / "jobs" / "replaced_job.py"
_CHANGED = "its files changed after this program had started"
_OTHERS = "the files that this program has loaded are not those that it would load now"


def site_of(toolchain):
    site, = (toolchain / "lib").glob("python3*/site-packages")
    return site


@pytest.fixture(scope="module")
def python():
    return TOOLCHAINS / "triton-3.6.0" / "bin" / "python"


@pytest.fixture(scope="module")
def site(python, tmp_path_factory):
    """A Triton of links to another's files, and one file of its own."""
    package = tmp_path_factory.mktemp("site") / "triton"
    package.mkdir()
    for entry in (site_of(python.parent.parent) / "triton").iterdir():
        if entry.name != "_utils.py":
            (package / entry.name).symlink_to(entry)
        else:
            (package / entry.name).write_bytes(entry.read_bytes())
    return package.parent


@pytest.fixture
def environment(site, tmp_path):
    (tmp_path / "environment").symlink_to(site)
    return tmp_path / "environment"


def output_of(python, environment, *program):
    """Of a process that starts in a later tick of the clock than anything that was done before."""
    ends = time.time() + 2 / os.sysconf("SC_CLK_TCK")
    while time.time() < ends:
        time.sleep(0.001)
    variables = package_environment()
    return subprocess.run([python, "-B", *program], text=True, capture_output=True, timeout=120, check=True, env={
        "PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(environment.parent / "cache"),
        "PYTHONPATH": f"{environment}{os.pathsep}{variables['PYTHONPATH']}"}).stdout


def run(python, environment, *arguments):
    """The job's answer."""
    return json.loads(output_of(python, environment, _JOB, *arguments))


@pytest.mark.slow
def test_a_remembered_file_list_belongs_to_one_path_of_triton(python, environment):
    script = "import sys, triton; from kiln._plugin import identity; identity._TRITON_CALL = sys.argv[1]; print(identity.toolchain_fingerprint())"
    older, newer, again = (output_of(python, environment, "-c", script, call) for call in "121")
    assert older == again != newer


@pytest.mark.slow
def test_a_module_without_its_source_is_another_triton(python, environment):
    """Python imports bytecode that lies where a source would."""
    before, module = run(python, environment, "here", "nothing"), environment / "triton" / "sourceless.pyc"
    module.write_bytes(b"")
    try:
        assert len({answer["fingerprint"] for answer in (before, run(python, environment, "here", "nothing"))}) == 2
    finally:
        module.unlink()
    assert run(python, environment, "here", "nothing") == before


def test_a_forked_child_has_the_triton_of_its_parent(python, environment):
    here = run(python, environment, "here", "nothing")
    assert len(here["fingerprint"]) == 64 and run(python, environment, "a child", "nothing") == here


@pytest.mark.parametrize("where", ["here", "a child", "an orphan"])
def test_files_that_changed_after_the_program_had_started_are_told(python, environment, where):
    assert run(python, environment, where, "a file", environment / "triton" / "_utils.py") == {"changed": _CHANGED}


@pytest.mark.slow  # needs a second Triton
@pytest.mark.parametrize("where", ["here", "a child"])
def test_a_link_that_leads_elsewhere_is_told(python, environment, where):
    newer = site_of(VERSIONS / "triton-3.9.0")
    assert run(python, environment, where, "a link", environment, newer) == {"changed": _OTHERS}


# --- When a program started ------------------------------------------------------------------------------------------

FORKED, OWN = 0x40, 0


@pytest.fixture
def processes(tmp_path):
    """A /proc of processes: what is above each, its flags, the tick in which it started."""

    def make(**all_of_them):
        for process, (parent, flags, started) in all_of_them.items():
            fields = ["S", parent, "0", "0", "0", "0", str(flags), *["0"] * 12, str(started), "0"]
            (tmp_path / process.strip("_")).mkdir()
            (tmp_path / process.strip("_") / "stat").write_text(f"{process.strip('_')} (a name) of (its own) " + " ".join(fields))
        return str(tmp_path)

    return make


def started(folder):
    """In seconds after the machine's."""
    value = identity._start_of_program(folder)
    return None if value is None else round(value - time.time() + time.clock_gettime(time.CLOCK_BOOTTIME), 1)


def test_a_process_that_runs_a_program_of_its_own_started_itself(processes):
    assert started(processes(self=("7", OWN, 500), _7=("1", OWN, 200))) == 500 / os.sysconf("SC_CLK_TCK")


def test_a_forked_process_started_with_the_program_above_it(processes):
    assert started(processes(self=("7", FORKED, 500), _7=("6", FORKED, 400), _6=("1", OWN, 300))) == 300 / os.sysconf("SC_CLK_TCK")


def test_an_invisible_parent_is_unknown(processes):
    assert started(processes(self=("0", FORKED, 500))) is None


def test_a_process_that_started_later_is_not_a_parent(processes):
    assert started(processes(self=("7", FORKED, 500), _7=("1", OWN, 600))) is None


def test_without_proc_the_parent_is_unknown(tmp_path):
    assert started(str(tmp_path / "none")) is None


def test_no_fingerprint_without_the_start_of_the_program(monkeypatch):
    monkeypatch.setattr(identity, "_STARTED_AT", None)
    with pytest.raises(identity.ChangedError, match="is not known"):
        identity._check_unchanged([])
