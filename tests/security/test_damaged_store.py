"""A damaged store costs what was damaged, and the daemon says so. Each test is the attack on a real daemon's files."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import time

import pytest

from daemon import STOP_SECONDS_MAX, Daemon
from kiln._connection import Connection
from kiln.sockets import Endpoint
from kiln.v1 import kernel_service_pb2 as pb

pytestmark = pytest.mark.one_case

GENERATIONS = 3
ENTRIES_EACH = 60
CONTENT_BYTES = 9000  # too large for a record


@pytest.fixture
def victim(programs, tmp_path):
    """Not started; without toolchains."""
    (tmp_path / "toolchains").mkdir()
    return Daemon(dataclasses.replace(programs, toolchains=tmp_path / "toolchains"), tmp_path)


def ask(daemon, method, request):
    connection = Connection(Endpoint(socket=str(daemon.root / "run" / "kilnd.sock"), answer_s=60))
    return connection.call(method, request, time.monotonic() + 60)


def put(daemon, number):
    """The entries of one generation."""
    contents = {f"{number}-{index}".encode(): os.urandom(CONTENT_BYTES) for index in range(ENTRIES_EACH)}
    entries = [pb.OwnEntry(key=key, files=[pb.OwnFile(name="file", content=content)]) for key, content in contents.items()]
    ask(daemon, "PutOwn", pb.PutOwnRequest(entries=entries))
    return contents


def lost(daemon, contents):
    """What is not served any more. What is served is right."""
    got = ask(daemon, "GetOwn", pb.GetOwnRequest(keys=list(contents)))
    assert not got.unanswered_keys
    served = {entry.key: entry.files[0].content for entry in got.entries}
    assert served == {key: contents[key] for key in served}
    return contents.keys() - served


@pytest.fixture
def generations(victim):
    """The acknowledged entries of each life of a daemon. All but the last one's are in tables and blob files of their own."""
    result = []
    for number in range(GENERATIONS):
        with victim:
            result.append(put(victim, number))
    return result


def files(daemon, ending):
    return sorted(path for path in (daemon.root / "state" / "store").iterdir() if path.name.endswith(ending))


def set_aside(daemon):
    return [path for path in (daemon.root / "state").iterdir() if path.name.startswith("store.damaged-")]


@pytest.mark.slow
def test_a_damaged_table_costs_what_it_holds(victim, generations, tmp_path):
    """One cost all 180 entries of 180."""
    shutil.copytree(victim.root / "state" / "store", tmp_path / "whole")
    for table in files(victim, ".sst"):
        os.truncate(table, table.stat().st_size // 2)
        with victim:
            losses = [len(lost(victim, contents)) for contents in generations]
            print(table.name, losses)
            assert sorted(losses)[:-1] == [0, 0]
            assert "set it aside" in victim.log.read_text()
            for contents in generations:
                assert not lost(victim, put(victim, len(losses)))
        for store in [*set_aside(victim), victim.root / "state" / "store"]:
            shutil.rmtree(store)
        shutil.copytree(tmp_path / "whole", victim.root / "state" / "store")


@pytest.mark.slow
def test_a_removed_log_is_said(victim, generations):
    """The loss was silent."""
    files(victim, ".log")[-1].unlink()
    with victim:
        assert "log is missing" in victim.log.read_text()
        assert [len(lost(victim, contents)) for contents in generations] == [0, 0, ENTRIES_EACH]
    [aside] = set_aside(victim)
    assert list(aside.glob("*.sst"))


def test_damage_within_a_log_costs_what_is_near(victim, generations):
    log = files(victim, ".log")[-1]
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(b"damage")
    with victim:
        assert "set it aside" in victim.log.read_text()
        *earlier, losses = [len(lost(victim, contents)) for contents in generations]
        assert earlier == [0, 0] and 0 < losses < ENTRIES_EACH / 3


def overwrite(path):
    path.write_bytes(os.urandom(path.stat().st_size))


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.slow
@pytest.mark.parametrize("attack", [overwrite, os.unlink, replace_by_directory, lambda path: path.write_bytes(b"")],
                         ids=["overwritten", "removed", "a directory", "empty"])
def test_a_bad_blob_file_is_a_miss_for_its_entries(victim, generations, attack):
    """All of a GetOwn was INTERNAL."""
    attack(files(victim, ".blob")[0])
    with victim:
        losses = [len(lost(victim, contents)) for contents in generations]
        assert losses == [ENTRIES_EACH, 0, 0]
        everything = {key: content for contents in generations for key, content in contents.items()}
        assert len(lost(victim, everything)) == ENTRIES_EACH


@pytest.mark.slow
def test_a_store_that_hangs_when_it_is_opened_keeps_no_signal_waiting(victim, generations):
    """A pipe in the place of a file hangs its reader."""
    current = victim.root / "state" / "store" / "CURRENT"
    content = current.read_bytes()
    current.unlink()
    os.mkfifo(current)
    with victim.log.open("wb") as log:
        process = subprocess.Popen([victim.kilnd, "--root", victim.root], env=victim.environment(), stdout=log, stderr=log)
    writer = None
    while writer is None:  # until the daemon reads
        assert process.poll() is None, victim.log.read_text()
        with contextlib.suppress(OSError):
            writer = os.open(current, os.O_WRONLY | os.O_NONBLOCK)
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS_MAX / 2) == 0, victim.log.read_text()
    assert "asked to stop before the store was open" in victim.log.read_text()
    os.close(writer)
    current.unlink()
    current.write_bytes(content)
    assert not set_aside(victim)
    with victim:
        assert [len(lost(victim, contents)) for contents in generations] == [0, 0, 0]
