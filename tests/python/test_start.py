"""What kilnd finds in its directory when it starts: a clear error or a start, and nothing of anybody's is lost."""

import pathlib

import pytest

from daemon import Daemon

pytestmark = pytest.mark.one_case


@pytest.fixture(scope="module")
def request_file(run_with_triton, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    run_with_triton("lower.py", "--kernels", "vector_add", "--targets", "cuda:90", "--out", folder)
    return folder / "requests.jsonl"


@pytest.fixture
def fresh(first_daemon, tmp_path):
    """A daemon that has not been started, with an empty store. It need not examine its toolchains again."""
    return first_daemon.beside(tmp_path)


def outcome(daemon, request_file):
    """How the daemon answers for the one kernel: "compiled" or "hit"."""
    answer = daemon.kiln("compile", "--requests", request_file, "--json")
    assert answer.code == 0, answer
    return answer.objects()[0]["outcome"]


def test_a_stored_kernel_survives_a_restart(fresh, request_file):
    with fresh as running:
        assert outcome(running, request_file) == "compiled"
    with fresh as running:
        assert outcome(running, request_file) == "hit"


@pytest.mark.slow
@pytest.mark.parametrize("name, first", [("CURRENT", "hit"), ("MANIFEST", "compiled")])  # a lost CURRENT costs nothing
def test_a_damaged_store_is_set_aside_and_nothing_is_deleted(fresh, request_file, name, first):
    with fresh as running:
        assert outcome(running, request_file) == "compiled"
    store = fresh.root / "state" / "store"
    [damaged] = [path for path in store.iterdir() if path.name.startswith(name)]
    damaged.write_bytes(b"\xff" * 100)
    before = {path.name for path in store.iterdir()}
    with fresh as running:
        assert outcome(running, request_file) == first
        assert outcome(running, request_file) == "hit"
    aside = [path.parent for path in (fresh.root / "state").rglob(damaged.name) if path.read_bytes() == b"\xff" * 100]
    assert len(aside) == 1
    # RocksDB's own lock and log files come and go.
    kept = {path.name for path in aside[0].iterdir()}
    assert {one for one in before if one.endswith((".sst", ".blob", ".log"))} <= kept


def test_no_toolchain_is_here(programs, tmp_path, request_file):
    (tmp_path / "empty").mkdir()
    environment = {"KILN_TOOLCHAIN_DIRECTORIES": str(tmp_path / "empty")}
    with Daemon(programs, tmp_path, environment=environment) as running:
        answer = running.kiln("compile", "--requests", request_file, "--json")
        assert answer.objects()[0]["code"] == "FAILED_PRECONDITION"


@pytest.mark.slow
def test_a_toolchain_that_is_only_half_there(programs, tmp_path, request_file):
    folder = tmp_path / "toolchains"
    (folder / "triton-3.6.0" / "bin").mkdir(parents=True)
    (folder / "triton-3.6.0" / "bin" / "python").symlink_to("/usr/bin/python3")
    with Daemon(programs, tmp_path, environment={"KILN_TOOLCHAIN_DIRECTORIES": f"{folder}:{programs.toolchains}"}) as running:
        assert outcome(running, request_file) == "compiled"


def maps_of_workers(daemon):
    """Of the processes that run Triton for it."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            if b"--zygote" in command and b"--backend" in command and str(daemon.pid).encode() in command:
                yield (process / "maps").read_text()
        except OSError:  # it is gone
            pass


@pytest.mark.slow
@pytest.mark.parametrize("malloc, is_there", [("jemalloc", True), ("libc", False)])
def test_workers_allocate_with_what_is_configured(first_daemon, tmp_path, request_file, malloc, is_there):
    with first_daemon.beside(tmp_path, KILN_WORKERS_MALLOC=malloc) as running:
        assert outcome(running, request_file) == "compiled"
        mapped = list(maps_of_workers(running))
        assert mapped and all(("libjemalloc" in maps) == is_there for maps in mapped)
