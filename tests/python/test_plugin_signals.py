"""What a signal's handler raises in the middle of the plug-in comes out of it. No Triton, no daemon."""

import builtins
import fcntl
import functools
import os
import signal
import sys
import threading
import time

import pytest

from kiln import CompileRequest, _validate, _ptxas
from kiln._batch import Batch
from kiln._hot import HotReader
from kiln._launch import library
from kiln._plugin import file_lock, identity, service, settings
from kiln._signals import from_handler
from kiln.key import canonical_encoding
from kiln.sockets import Endpoint

REQUEST = CompileRequest("module {}", "cuda:90", toolchain="6" * 64)


class Preempted(Exception):
    """Says that the job is to save what it has and end."""


class _Handlers:

    def method(self, number, frame):
        raise Preempted

    @staticmethod
    def any_arguments(*_):
        raise Preempted

    @staticmethod
    def unused_arguments(number, frame):
        del number, frame
        raise Preempted

    @staticmethod
    def once(number, frame):
        signal.signal(number, signal.SIG_DFL)
        _fail()

    def __call__(self, number, frame):
        del frame
        raise Preempted


def _fail():
    raise Preempted


HANDLERS = {
    "a function": lambda number, frame: _fail(), "a method": _Handlers().method, "of any arguments": _Handlers.any_arguments,
    "of more arguments": functools.partial(lambda why, number, frame: _fail(), "why"), "that is there for one signal": _Handlers.once,
    "that deletes its arguments": _Handlers.unused_arguments, "so, too": functools.partial(_Handlers.unused_arguments),
    "an object": _Handlers(),
}


@pytest.fixture
def handled():
    """Has SIGUSR1 handled; returns what sends it."""
    before = signal.getsignal(signal.SIGUSR1)

    def handle(handler, after_s=0.0):
        signal.signal(signal.SIGUSR1, handler)
        me = threading.main_thread().ident
        if after_s:
            threading.Timer(after_s, signal.pthread_kill, (me, signal.SIGUSR1)).start()
        else:
            signal.pthread_kill(me, signal.SIGUSR1)

    yield handle
    signal.signal(signal.SIGUSR1, before)


def caught(work):
    with pytest.raises(Preempted) as error:
        work()
    return error.value


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handlers_exception_is_recognized(handled, name):
    assert from_handler(caught(lambda: handled(HANDLERS[name])))


def test_a_handlers_exception_in_a_wait_is_recognized(handled):
    handled(HANDLERS["a function"], after_s=0.05)
    assert from_handler(caught(lambda: threading.Event().wait(60)))


def test_another_exception_is_not_a_handlers():
    assert not from_handler(caught(_fail))
    assert not from_handler(caught(lambda: HANDLERS["a method"](10, None)))
    assert not from_handler(caught(lambda: HANDLERS["that deletes its arguments"](10, None)))


class Overdue(TimeoutError):
    """What a program's watchdog says, which is an OSError, too."""


def overdue(number, frame):
    raise Overdue


def unlocked(descriptor):
    with file_lock.locked_within(descriptor, 1):
        pass


# By what is interrupted: where it is found, its name, at which call of it, and what calls it, given a file, its descriptor and its folder.
OPENED = (identity, "open", 1)
INTERRUPTED = {
    "the installation's list of files": (*OPENED, lambda path, _, folder: identity._distribution_version(f"{folder}/triton")),
    "when the program began": (*OPENED, lambda *_: identity._start_of_program()),
    "reading what is remembered": (*OPENED, lambda path, *_: identity._read(path)),
    "remembering it": (*OPENED, lambda path, *_: identity._write(path, "a value")),
    "the folder for it": (identity, "_cache_folder", 1, lambda *_: identity._remembered("a listing", lambda: "a value")),
    "the file of its lock": (os, "open", 1, lambda *_: identity._remembered("files", lambda: "a value")),
    "a lock": (fcntl, "flock", 1, lambda _, descriptor, __: unlocked(descriptor)),
    "giving it back": (fcntl, "flock", 2, lambda _, descriptor, __: unlocked(descriptor)),
    "a ptxas": (_ptxas, "_digest_of", 1, lambda *_: _ptxas.selector(sys.executable)),
    "the library for launching": (library, "Library", 1, lambda *_: library.library.__wrapped__()),
    "where the manifest is": (os.path, "abspath", 1, lambda *_: settings._absolute("manifest")),
}


@pytest.mark.parametrize("what", INTERRUPTED)
def test_an_exception_of_a_signal_handler_is_no_failure_of_the_system(monkeypatch, tmp_path, what):
    place, name, at, work = INTERRUPTED[what]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "triton-3.6.0.dist-info").mkdir()
    (tmp_path / "triton-3.6.0.dist-info" / "RECORD").write_text("triton/__init__.py,,")
    call, calls = getattr(place, name, None) or getattr(builtins, name), []

    def interrupted(*arguments, **keywords):
        calls.append(arguments)
        if len(calls) == at:
            signal.raise_signal(signal.SIGUSR1)
        return call(*arguments, **keywords)

    before = signal.signal(signal.SIGUSR1, overdue)
    try:
        with open(tmp_path / "file", "wb") as file, pytest.raises(Overdue), monkeypatch.context() as patch:
            patch.setattr(place, name, interrupted, raising=False)
            work(file.name, file.fileno(), str(tmp_path))
    finally:
        signal.signal(signal.SIGUSR1, before)


class Ended(ValueError, TypeError):
    """What a program's handler says in words that are Python's own for an argument that is wrong."""


def ended(number, frame):
    raise Ended


class _Own:
    """Of the program's own kind: its code is run where it is looked at."""

    def _interrupted(self):
        signal.raise_signal(signal.SIGUSR1)

    __repr__ = __index__ = __iter__ = _interrupted


@pytest.mark.parametrize("look", [
    _validate.shown, lambda given: _validate.each(given, "requests"), lambda given: _validate.within(given, "a size"),
    lambda given: canonical_encoding(kind="ttir", source="", backend="cuda", architecture="90", warp_size=32,
                                     toolchain_fingerprint=bytes(32), parameters=given)
], ids=["shown", "taken one by one", "a number", "in a key"])
def test_an_exception_of_a_signal_handler_is_no_mistake_in_an_argument(handled, look):
    signal.signal(signal.SIGUSR1, ended)
    with pytest.raises(Ended):
        look(_Own())


class _Waiting:
    """A client whose daemon says nothing."""

    def compile(self, request, timeout):
        time.sleep(60)

    nearest = compile

    def toolchains(self, timeout):
        time.sleep(60)


def waiting():
    plugin = service.Service(settings.Settings())
    plugin._client = _Waiting()
    return plugin


@pytest.mark.parametrize("ask", [
    lambda plugin: plugin.compile(REQUEST), lambda plugin: plugin.nearest(REQUEST),
    lambda plugin: service._why_unsuited(plugin._client, REQUEST)
], ids=["a kernel", "what comes closest", "the toolchains"])
def test_a_handlers_exception_leaves_the_wait_for_the_daemon(handled, ask):
    handled(HANDLERS["a function"], after_s=0.05)
    caught(lambda: ask(waiting()))


def test_a_handlers_exception_leaves_connecting_and_the_client_is_tried_again(handled, monkeypatch, caplog):
    plugin = service.Service(settings.Settings())
    monkeypatch.setattr(service.Endpoint, "connect", lambda _: time.sleep(60))
    for _ in range(2):
        handled(HANDLERS["a function"], after_s=0.05)
        caught(plugin.connect)
    assert not caplog.text


class _Silent:
    """A connection at whose other end nothing is ever answered."""

    def start(self, *_):
        return id(object())

    def wait(self, deadline):
        time.sleep(60)


def test_a_handlers_exception_leaves_the_wait_for_a_batch(handled):
    handled(HANDLERS["a function"], after_s=0.05)
    answers = []
    caught(lambda: answers.extend(Batch(_Silent, HotReader(Endpoint(root="/nowhere")), [REQUEST] * 2, None, 2).answers()))
    assert not answers


def test_a_mistake_of_the_clients_does_not(monkeypatch):
    plugin = service.Service(settings.Settings())

    def mistaken(_):
        raise KeyError("of Kiln's own")

    monkeypatch.setattr(service.Endpoint, "connect", mistaken)
    with pytest.raises(service.Declined):
        plugin.connect()
