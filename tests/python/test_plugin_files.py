"""What the plug-in writes, says and remembers in files that other processes have too. No Triton, no daemon."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import resource
import signal
import sys
import threading
import time
import types

import pytest

from kiln import CallCancelledError, CompileRequest, DeadlineExceededError, FailedPreconditionError, Report
from kiln._plugin import autotune_prefetch, identity, manifest, service
from kiln._plugin.settings import Settings

REQUEST = CompileRequest("module {}" + " " * 100_000, "cuda:90", name="k")
LINE = manifest.manifest_line(manifest.Recording(REQUEST))
OTHER = CompileRequest("module {}", "cuda:90", name="other")


@pytest.fixture
def forked():
    """Forks a child that goes on to live, like another thread of a job that starts its workers."""
    children = []

    def fork():
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            signal.pause()
            os._exit(0)
        children.append(pid)

    yield fork
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def is_locked(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The path of a manifest, for whose lock nobody waits long."""
    monkeypatch.setattr(manifest, "_LOCK_SECONDS_MAX", 0.1)
    return tmp_path / "manifest.jsonl"


def test_a_locked_manifest_does_not_delay_the_job(recorded, caplog):
    recorded.write_bytes(b"")
    with open(recorded, "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    assert recorded.read_bytes() == b"" and "recording to" in caplog.text and "cannot be locked" in caplog.text


def test_a_child_that_is_forked_meanwhile_does_not_hold_the_manifest(recorded, monkeypatch, forked):
    append = manifest._append_line

    def append_and_fork(descriptor, line):
        append(descriptor, line)
        forked()

    monkeypatch.setattr(manifest, "_append_line", append_and_fork)
    manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    assert not is_locked(recorded)


@pytest.fixture
def interrupted(monkeypatch):
    """Has a signal come while the file is locked, once."""
    append = manifest._append_line
    before = signal.getsignal(signal.SIGUSR1)

    def interrupt_by(handle):
        signal.signal(signal.SIGUSR1, lambda number, frame: handle())
        monkeypatch.setattr(manifest, "_append_line", append_interrupted)

    def append_interrupted(descriptor, line):
        monkeypatch.setattr(manifest, "_append_line", append)
        signal.raise_signal(signal.SIGUSR1)
        append(descriptor, line)

    yield interrupt_by
    signal.signal(signal.SIGUSR1, before)


def test_a_compile_inside_a_handler_is_recorded(recorded, interrupted, caplog):
    file = manifest.Manifest(str(recorded))
    interrupted(lambda: file.add(manifest.Recording(OTHER)))
    file.add(manifest.Recording(REQUEST))
    assert recorded.read_bytes() == LINE + manifest.manifest_line(manifest.Recording(OTHER)) and not caplog.text


@pytest.mark.parametrize("kind", [TimeoutError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("again", [REQUEST, OTHER], ids=["the same again", "another next"])
def test_a_handler_that_raises_in_the_middle_of_it_loses_no_line(recorded, interrupted, caplog, kind, again):
    def fail():
        raise kind

    file = manifest.Manifest(str(recorded))
    interrupted(fail)
    with pytest.raises(kind):
        file.add(manifest.Recording(REQUEST))
    file.add(manifest.Recording(again))
    assert recorded.read_bytes() == LINE + (b"" if again is REQUEST else manifest.manifest_line(manifest.Recording(OTHER))) and not caplog.text


def test_a_manifest_that_is_a_pipe_does_not_block(recorded, caplog):
    os.mkfifo(recorded)
    manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    assert "recording to" in caplog.text


def test_half_a_line_is_taken_back(recorded, caplog):
    manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINE) + 4096, limits[1]))
    try:
        manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "recording to" in caplog.text and recorded.read_bytes() == LINE


def test_half_a_line_of_another_process_spoils_no_other(recorded):
    recorded.write_bytes(LINE[:50])
    manifest.Manifest(str(recorded)).add(manifest.Recording(REQUEST))
    assert recorded.read_bytes() == LINE[:50] + b"\n" + LINE


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch, caplog):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    manifest.Manifest(Settings.of({"KILN_MODE": "record"}).manifest).add(manifest.Recording(REQUEST))
    assert "recording to kiln-manifest.jsonl stopped" in caplog.text


@pytest.mark.parametrize("version", [
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Thu Oct  1 10:00:00 UTC 2026\nGCC version:  gcc version 12.2.0\n",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@host)\n",
], ids=["closed", "open"])
def test_a_recording_names_the_machines_gpus_and_their_driver(tmp_path, monkeypatch, version):
    monkeypatch.setattr(manifest, "_NVIDIA", str(tmp_path))
    assert manifest.origin_lines("") == [] or "driver" not in json.loads(manifest.origin_lines("")[0])["manifest"].get("versions", {})
    (tmp_path / "version").write_text(version)
    for gpu in "0000:17:00.0", "0000:65:00.0":
        (tmp_path / "gpus" / gpu).mkdir(parents=True)
        (tmp_path / "gpus" / gpu / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t GPU-0\n")
    line, = manifest.origin_lines("train")
    told = json.loads(line)["manifest"]
    assert (told["job"], told["devices"], told["versions"]["driver"]) == ("train", ["NVIDIA H200"], "580.159.04")


def test_the_line_of_a_report():
    report = Report(hits={"own": 1}, refused=2, seconds_saved=-0.001)
    assert str(report) == "3 kernels: 1 found, 2 refused; 0.0 s saved"
    assert str(Report()) == "0 kernels; 0.0 s saved"


def test_a_slow_answer_is_not_counted_as_saved():
    assert str(Report(hits={"hot": 1}, seconds_waited=0.5, seconds_saved=-0.3)) == "1 kernel: 1 found; 0.3 s lost"


class _Unhelpful:
    """A client whose daemon has other toolchains, or takes too long."""

    def __init__(self, error, *versions):
        self._error = error
        self._versions = versions

    def compile(self, request, timeout):
        raise self._error

    def toolchains(self, timeout):
        return [types.SimpleNamespace(name="triton", version=version, fingerprint="0" * 64, backends=()) for version in self._versions]


def declined(client, **settings):
    """What the plug-in raises instead of an artifact."""
    plugin = service.Service(Settings(**settings))
    plugin._client = client
    with pytest.raises(service.Declined) as caught:
        plugin.compile(CompileRequest("module {}", "cuda:90", toolchain="6" * 64))
    return caught.value


@pytest.mark.parametrize("version, there, said, unsaid", [
    ("3.6.0", "3.7.1", "this is Triton 3.6.0 for Python 3.*: 'kiln toolchain add triton==3.6.0' .*, 'kiln toolchain add triton --path PREFIX'",
     "of another build"),
    ("3.6.0", "3.6.0", "Triton 3.6.0 .* of another build or for another Python.*: 'kiln toolchain add triton --path PREFIX'", "triton=="),
    ("3.8.0+git12", "3.7.1", "this is Triton 3.8.0.git12 .*: 'kiln toolchain add triton --path PREFIX'", "triton=="),
])
def test_a_declined_job_is_told_how_the_daemon_gets_the_triton_of_the_job(monkeypatch, caplog, version, there, said, unsaid):
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(__version__=version, __file__=f"{sys.prefix}/lib/triton/__init__.py"))
    why = declined(_Unhelpful(FailedPreconditionError("no toolchain here is that"), there))
    assert why.reason == "the daemon has no such toolchain"
    for words in (why.details, caplog.text):
        assert re.search(said.replace("PREFIX", re.escape(sys.prefix)), words) and unsaid not in words, words


def test_a_triton_outside_of_the_environment_is_not_named_by_its_path(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(__version__="3.6.0", __file__="/elsewhere/triton/__init__.py"))
    why = declined(_Unhelpful(FailedPreconditionError("no toolchain here is that")))
    assert "triton==3.6.0" in why.details and "--path" not in why.details


def test_a_daemon_that_takes_too_long_is_told_of(caplog):
    client = _Unhelpful(DeadlineExceededError("too long"))
    assert declined(client, timeout_s=0.001).reason == "the daemon took too long"
    assert "longer than 0.001 s (KILN_TIMEOUT)" in caplog.text and "Triton compiles by itself" in caplog.text


def test_a_daemon_that_cancels_a_call_by_itself_is_told_of(caplog):
    assert declined(_Unhelpful(CallCancelledError("by an operator"))).reason == "the daemon answered CANCELLED"
    assert "CANCELLED: by an operator" in caplog.text


@pytest.fixture
def broken_off():
    """The tuning that this thread compiles ahead of has been broken off."""
    with autotune_prefetch.turn(types.SimpleNamespace(is_broken_off=True), contextlib.nullcontext()):
        yield


def test_a_kernel_that_is_to_be_lowered_has_its_turn_before_an_answer():
    order, turn = [], autotune_prefetch.Turns()

    def work(name):
        with autotune_prefetch.turn(types.SimpleNamespace(check=lambda: None), turn):
            order.append(f"{name} lowers")
            while name == "first" and len(turn._waiting) < 2:
                time.sleep(0.001)
            autotune_prefetch.end_turn()
            autotune_prefetch.let_others_lower()
            order.append(f"{name} ends")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second", "third")]
    for place, thread in enumerate(threads):
        thread.start()
        while not order or place == 1 and not turn._waiting:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order[:3] == ["first lowers", "second lowers", "third lowers"] and len(order) == 6


def test_the_calls_of_a_tuning_that_was_broken_off_are_not_told_of(broken_off, caplog):
    assert isinstance(declined(_Unhelpful(CallCancelledError("the call was cancelled"))), service.BrokenOff)
    assert not caplog.text


def test_connecting_for_a_tuning_that_was_broken_off_says_nothing_of_the_daemon(broken_off, monkeypatch, caplog):
    def cancelled(_):
        tried.append(1)
        raise CallCancelledError("the call was cancelled")

    tried, plugin = [], service.Service(Settings())
    monkeypatch.setattr(service.Endpoint, "connect", cancelled)
    for _ in range(2):
        with pytest.raises(service.BrokenOff):
            plugin.connect()
    assert len(tried) == 2 and not caplog.text


def test_a_name_in_no_encoding(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / os.fsdecode(b"pt\xffxas")
    path.write_bytes(bytes(identity._SMALL_BYTES + 1))
    assert identity.file_digest(str(path)) == hashlib.sha256(path.read_bytes()).hexdigest()
    identity._digest_of.cache_clear()
    monkeypatch.setattr(identity._files, "sha256", None)  # it is remembered
    assert len(identity.file_digest(str(path))) == 64


@pytest.fixture
def remembered(tmp_path, monkeypatch):
    """What is computed where nothing is remembered, and the lock that others wait for meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def remember(compute):
        value = identity._remembered("what it is", compute)
        lock, = (tmp_path / "cache").rglob("*.lock")
        return value, lock

    return remember


def test_a_child_that_is_forked_meanwhile_does_not_hold_up_who_looks_something_up(remembered, forked):
    _, lock = remembered(lambda: forked() or "value")
    assert not is_locked(lock)


def test_a_remembered_key_needs_no_lock(remembered, monkeypatch):
    remembered(lambda: "value")
    monkeypatch.setattr(identity, "_locked", None)
    assert remembered(lambda: "another")[0] == "value"
