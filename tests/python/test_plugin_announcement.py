"""kiln._plugin.announcement: one process lowers a kernel, others wait for it, and nobody waits for long."""

import contextlib
import hashlib
import os
import signal
import socket
import time

import pytest

from kiln._plugin import announcement

# Far less than a wait that nobody ends takes here.
SOON_S = 30.0


@pytest.fixture
def key(monkeypatch):
    """Of a kernel that is this test's own."""
    monkeypatch.setattr(announcement, "_WAIT_S", 300.0)
    yield os.urandom(16)
    announcement.end()


@contextlib.contextmanager
def announcing(key, then=lambda: None):
    """A child that has announced the kernel and then does that. It is killed in the end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        announcement.waited(key)
        os.write(writing, b".")
        then()
        signal.pause()
    os.read(reading, 1)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading), os.close(writing)


def seconds_of_wait(key):
    started = time.monotonic()
    assert announcement.waited(key)
    return time.monotonic() - started


def soon(do):
    """Does it a little later, when this process is likely to wait."""
    if os.fork() == 0:
        time.sleep(0.1)
        do()
        os._exit(0)


def test_the_first_process_announces_and_does_not_wait(key):
    assert not announcement.waited(key)
    assert not announcement.waited(key + b"another")


def test_a_wait_ends_with_the_process(key):
    with announcing(key) as child:
        soon(lambda: os.kill(child, signal.SIGKILL))
        assert seconds_of_wait(key) < SOON_S


def test_a_forked_child_keeps_no_name(key):
    """The next process announces the kernel while a child of the first lives on."""
    until_the_end, this_process = os.pipe()

    def fork_and_end():
        if os.fork() == 0:
            os.close(this_process)
            os.read(until_the_end, 1)
            os._exit(0)
        announcement.end()

    with announcing(key, fork_and_end):
        deadline = time.monotonic() + SOON_S
        while announcement.waited(key):
            assert time.monotonic() < deadline
    os.close(until_the_end), os.close(this_process)


def test_a_forked_child_ends_nothing(key, monkeypatch):
    monkeypatch.setattr(announcement, "_WAIT_S", 0.2)
    assert not announcement.waited(key)
    child = os.fork()
    if child == 0:
        announcement.end()
        os._exit(0 if announcement.waited(key) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_wait_for_a_process_that_stands_still_ends(key, monkeypatch):
    monkeypatch.setattr(announcement, "_WAIT_S", 0.2)
    with announcing(key) as child:
        os.kill(child, signal.SIGSTOP)
        assert 0.2 <= seconds_of_wait(key) < SOON_S


def test_announcing_a_second_kernel_ends_the_first_announcement(key):
    with announcing(key, lambda: announcement.waited(key + b"another")):
        deadline = time.monotonic() + SOON_S
        while announcement.waited(key):
            assert time.monotonic() < deadline


def test_another_users_announcement_is_not_waited_for(key, monkeypatch):
    """Its name says that it is this user's; the kernel says whose it is."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(f"\0kiln/12345/{hashlib.sha256(key).hexdigest()}")
        squatter.listen()
        assert seconds_of_wait(key) < SOON_S
