"""What kilnd finds in its directory when it starts: a clear error or a start, and nothing of anybody's is lost."""

import json
import os
import pathlib
import socket

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


def assert_refuses(daemon, *words):
    said = daemon.run_to_its_end()
    assert said.code != 0
    for word in words:
        assert word in said.error, said.error


def test_another_daemon_runs_on_the_directory(fresh, programs, tmp_path, request_file):
    with fresh as running:
        assert outcome(running, request_file) == "compiled"
        (tmp_path / "second").mkdir()
        assert_refuses(Daemon(programs, tmp_path / "second", root=running.root), str(running.root))
        assert outcome(running, request_file) == "hit"


def test_a_stored_kernel_survives_a_restart(fresh, request_file):
    with fresh as running:
        assert outcome(running, request_file) == "compiled"
    with fresh as running:
        assert outcome(running, request_file) == "hit"


def test_sockets_and_stores_that_a_dead_daemon_left(fresh, request_file):
    with fresh as running:
        assert outcome(running, request_file) == "compiled"
        running.kill()
        assert (running.root / "run" / "kilnd.sock").is_socket()
    with fresh as running:
        assert outcome(running, request_file) == "hit"


@pytest.mark.parametrize("name", ["kilnd.sock", "admin.sock"])
def test_a_symbolic_link_where_a_socket_should_be(fresh, tmp_path, name):
    target = tmp_path / "victim"
    target.write_text("not yours")
    (fresh.root / "run").mkdir(parents=True)
    (fresh.root / "run" / name).symlink_to(target)
    assert_refuses(fresh, name, "symbolic link")
    assert target.read_text() == "not yours"
    assert (fresh.root / "run" / name).is_symlink()


def test_a_link_to_somebody_elses_socket(fresh, tmp_path):
    path = str(tmp_path / "other.sock")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        (fresh.root / "run").mkdir(parents=True)
        (fresh.root / "run" / "kilnd.sock").symlink_to(path)
        assert_refuses(fresh, "kilnd.sock")
        assert os.path.exists(path)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_path_that_is_not_a_socket_is_named(fresh, kind):
    path = fresh.root / "run" / "kilnd.sock"
    path.parent.mkdir(parents=True)
    if kind == "file":
        path.write_text("a file")
    else:
        path.mkdir()
    assert_refuses(fresh, str(path))
    assert path.exists()


def test_a_file_where_the_state_directory_should_be(programs, tmp_path):
    fresh = Daemon(programs, tmp_path)
    fresh.root.mkdir()
    (fresh.root / "state").write_text("a file")
    assert_refuses(fresh, "state")
    assert (fresh.root / "state").read_text() == "a file"


@pytest.mark.slow
def test_a_path_too_long_for_a_socket(programs, tmp_path):
    root = tmp_path / ("long" * 30)
    assert_refuses(Daemon(programs, tmp_path, root=root), "shorter")


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


@pytest.mark.slow
def test_sigterm_finishes_what_is_under_way(fresh, request_file, tmp_path):
    many = tmp_path / "many.jsonl"
    request = json.loads(request_file.read_text())
    with open(request["source_file"], encoding="utf-8") as file:
        source = file.read()
    lines = [{**request, "source_file": None, "source": source + f"// {n}\n", "name": f"k{n}"} for n in range(20)]
    many.write_text("".join(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n" for line in lines))
    with fresh as running:
        asking = running.start_kiln("compile", "--requests", many, "--json")
        first = asking.stdout.readline()
        assert json.loads(first)["outcome"] == "compiled"
        running.terminate()
        out = asking.stdout.read()  # communicate() would pass over what readline() has read ahead
        asking.communicate(timeout=60)
        # Each was answered: compiled, or refused with a reason.
        answers = [json.loads(line) for line in (first + out).splitlines()]
        for answer in answers[:-1]:
            assert answer["outcome"] == "compiled" or answer["error"], answer
    with fresh as running:
        for answer in answers[:-1]:
            if answer["outcome"] == "compiled":
                assert running.kiln("inspect", answer["key"]).code == 0


def maps_of_workers(daemon):
    """Of the processes that run Triton for it."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            if b"--zygote" in command and b"--backend" in command and str(daemon.pid).encode() in command:
                yield (process / "maps").read_text()
        except OSError:  # it is gone
            pass


@pytest.mark.parametrize("malloc, is_there", [("jemalloc", True), ("libc", False)])
def test_workers_allocate_with_what_is_configured(first_daemon, tmp_path, request_file, malloc, is_there):
    with first_daemon.beside(tmp_path, KILN_WORKERS_MALLOC=malloc) as running:
        assert outcome(running, request_file) == "compiled"
        mapped = list(maps_of_workers(running))
        assert mapped and all(("libjemalloc" in maps) == is_there for maps in mapped)
