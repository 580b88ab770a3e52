"""kiln._connection against daemons that lie, dawdle or go away, and in processes that fork, raise and end. No Triton, no kilnd."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

import kiln
from job import package_environment
from kiln import aio
from kiln._connection import ANSWER, IN_FLIGHT_MAX, PREAMBLE, Connection
from kiln.sockets import Endpoint, service_uid
from kiln.v1 import kernel_pb2
from kiln.v1 import kernel_service_pb2 as pb

REQUEST = struct.Struct("<IQIB")
COMPILE, LOOKUP, FETCH, CANCEL = 1, 2, 4, 8
SECONDS_MAX = 20


def ok(number, message=b""):
    return ANSWER.pack(9 + len(message), number, 0) + message


class Fake:
    """A daemon that answers as `answer` says: given a number and a method, the bytes, or None to hang up."""

    def __init__(self, folder, answer):
        self.path, self._answer, self.seen, self._connections = str(folder / "kilnd.sock"), answer, [], []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self._connections.append(self._listener.accept()[0])
                threading.Thread(target=self._serve, args=(self._connections[-1],), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError, struct.error):
            assert stream.read(len(PREAMBLE)) == PREAMBLE
            while True:
                length, number, _, method = REQUEST.unpack(stream.read(REQUEST.size))
                stream.read(length - 13)
                self.seen.append((number, method))
                answer = self._answer(number, method)
                if answer is None:
                    return
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    if piece is None:
                        return
                    connection.sendall(piece)

    def close(self):
        self._listener.close()

    def hang_up(self):
        """On everybody, and for good."""
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        os.unlink(self.path)


@pytest.fixture
def serving(tmp_path):
    fakes = []
    tmp_path.chmod(0o755)

    def serve(answer):
        fakes.append(Fake(tmp_path, answer))
        return Endpoint(socket=fakes[-1].path, answer_s=0.4), fakes[-1]

    yield serve
    for fake in fakes:
        fake.close()


def look_up(connection, timeout_s=SECONDS_MAX):
    return connection.call("Lookup", pb.LookupRequest(keys=[b"k"]), time.monotonic() + timeout_s)


def test_an_answer_that_comes_byte_by_byte(serving):
    entry = pb.LookupResponse(entries=[pb.LookupResponse.Entry(key=b"k")])
    endpoint, _ = serving(lambda number, _: [bytes([byte]) for byte in ok(number, entry.SerializeToString())])
    connection = Connection(endpoint)
    assert look_up(connection) == entry and connection.is_reusable


def test_answers_that_nobody_asked_for_are_ignored(serving):
    endpoint, _ = serving(lambda number, _: ok(number + 1000) + ok(number))
    connection = Connection(endpoint)
    for _ in range(3):
        assert look_up(connection) == pb.LookupResponse()


@pytest.mark.parametrize("answer", [
    lambda number, _: None, lambda number, _: [ok(number, b"12345")[:-1], None], lambda number, _: ANSWER.pack(2**32 - 1, number, 0) if number == 1 else b""
], ids=["nothing", "half of it", "a length that never comes"])
def test_an_answer_that_never_comes_whole(serving, answer):
    endpoint, _ = serving(answer)
    with pytest.raises(kiln.UnavailableError):
        look_up(Connection(endpoint))


@pytest.mark.parametrize("code,kind", [(14, "UNAVAILABLE"), (77, "UNKNOWN")])
def test_an_error_that_cannot_be_read(serving, code, kind):
    endpoint, _ = serving(lambda number, _: ANSWER.pack(12, number, code) + b"\xff\xff\xff")
    with pytest.raises(kiln.KilnError) as caught:
        look_up(Connection(endpoint))
    assert caught.value.code == kind


def test_an_answer_that_cannot_be_read(serving):
    endpoint, _ = serving(lambda number, _: ok(number, b"\xff\xff\xff"))
    with pytest.raises(kiln.InternalError, match="Lookup cannot be read"):
        look_up(Connection(endpoint))


def test_a_process_that_may_open_no_more_files_does_without(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(kiln.UnavailableError, match="Too many open files"):
            Connection(Endpoint(socket=str(tmp_path / "kilnd.sock")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_answer_that_comes_too_late_for_one_of_many(serving):
    """It is nobody else's: here of a content that was fetched."""
    is_late = threading.Event()

    def answer(number, method):
        if method == FETCH:
            is_late.wait(SECONDS_MAX)
            return ok(number, pb.FetchChunk(content=b"late").SerializeToString())
        if method == COMPILE:
            stage = kernel_pb2.StageBlob(stage="cubin", digest=bytes(32), size_bytes=4)
            return ok(number, pb.CompileResponse(key=bytes(32), stages=[stage]).SerializeToString()) if number == 2 else b""
        return ok(number)

    endpoint, fake = serving(answer)
    client, answers = kiln.Client(socket=endpoint.socket, answer_timeout=SECONDS_MAX), {}
    for index, one in client.compile_many([kiln.CompileRequest(str(index), "cuda:90") for index in range(2)], timeout=1.0):
        answers[index] = one
        is_late.set()
        time.sleep(0.1)  # for the answer to come in between
    assert all(isinstance(one, kiln.DeadlineExceededError) for one in answers.values()) and sorted(answers) == [0, 1], answers
    assert FETCH in dict(fake.seen).values()


def test_a_daemon_that_says_nothing_is_given_up_in_time(serving):
    endpoint, fake = serving(lambda number, _: b"")
    started = time.monotonic()
    with pytest.raises(kiln.UnavailableError, match="does not answer"):
        look_up(Connection(endpoint))
    assert 0.3 < time.monotonic() - started < 2 and len(fake.seen) == 3  # it was asked twice for a sign of life


def test_a_slow_answer_is_waited_for_while_there_are_signs_of_life(serving):
    asked = []

    def answer(number, method):
        asked.append(number)
        return ok(number) + (ok(asked[0]) if len(asked) == 5 else b"") if len(asked) > 1 else b""

    endpoint, _ = serving(answer)
    assert look_up(Connection(endpoint)) == pb.LookupResponse() and len(asked) == 5


def test_a_daemon_may_take_a_year_to_answer(serving):
    endpoint, _ = serving(lambda number, _: ok(number))
    assert kiln.Client(socket=endpoint.socket, answer_timeout=365 * 86400).toolchains(timeout=365 * 86400) == []


def test_a_timeout_ends_the_call_and_the_connection(serving):
    endpoint, _ = serving(lambda number, _: b"")
    connection = Connection(endpoint)
    with pytest.raises(kiln.DeadlineExceededError):
        look_up(connection, timeout_s=0.05)
    assert not connection.is_reusable


def test_threads_have_connections_of_their_own(serving):
    endpoint, fake = serving(lambda number, _: ok(number))
    client, errors = kiln.Client(socket=endpoint.socket), []

    def ask():
        for _ in range(50):
            try:
                client.toolchains()
            except kiln.KilnError as error:
                errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(client._idle) <= 4 and not client._busy


def test_an_idle_connection_that_the_daemon_closed_is_not_used(serving):
    """By the only attempt, as the plug-in has it."""
    endpoint, _ = serving(lambda number, method: ok(number))
    client = kiln.Client(socket=endpoint.socket, attempts=1)
    client._idle[0]._socket.shutdown(socket.SHUT_RD)  # as where the other end hung up
    assert client.toolchains() == []


def test_a_handlers_exception_leaves_the_wait_and_the_next_call_works(serving):
    is_silent = [True]
    endpoint, _ = serving(lambda number, method: b"" if is_silent[0] and method != LOOKUP else ok(number))

    class Overdue(TimeoutError):
        """An OSError, too."""

    def handle(*_):
        raise Overdue

    client = kiln.Client(socket=endpoint.socket)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Overdue):
            client.toolchains()
    finally:
        signal.signal(signal.SIGALRM, before)
    is_silent[0] = False
    assert client.toolchains() == [] and not client._busy


def test_a_handler_forks_in_the_middle_of_a_call(serving):
    """The child comes back into the call without the connection; its parent is answered."""
    is_forked, codes = threading.Event(), []

    def answer(number, method):
        if number > 1:
            is_forked.wait(SECONDS_MAX)
        return ok(number)

    endpoint, _ = serving(answer)
    client, parent = kiln.Client(socket=endpoint.socket, answer_timeout=SECONDS_MAX, attempts=1), os.getpid()

    def handle(*_):
        pid = os.fork()
        if pid:
            codes.append(pid)
            is_forked.set()
        else:
            signal.alarm(SECONDS_MAX)

    before = signal.signal(signal.SIGUSR1, handle)
    threading.Timer(0.1, os.kill, (parent, signal.SIGUSR1)).start()
    try:
        client.toolchains()
    except kiln.UnavailableError as error:
        if os.getpid() != parent:
            os._exit(7 if "forked" in str(error) else 1)
        raise
    finally:
        if os.getpid() != parent:
            os._exit(2)
        signal.signal(signal.SIGUSR1, before)
    assert os.waitstatus_to_exitcode(os.waitpid(codes[0], 0)[1]) == 7


def test_a_child_that_ends_at_once_ends_nothing_of_its_parents(serving):
    endpoint, _ = serving(lambda number, _: ok(number))
    client = kiln.Client(socket=endpoint.socket, attempts=1)
    for leave in (lambda: os._exit(0), client.close):
        pid = os.fork()
        if pid == 0:
            leave()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert client.toolchains() == []


@pytest.mark.parametrize("script", [
    "client.toolchains()",
    "import threading; threading.Thread(target=client.nearest, args=(kiln.CompileRequest('', 'cuda:90'),), daemon=True).start()",
], ids=["idle", "in a call"])
def test_an_interpreter_that_ends_says_nothing(serving, script):
    endpoint, _ = serving(lambda number, method: b"" if method == 3 else ok(number))
    done = subprocess.run([sys.executable, "-X", "dev", "-c", f"import kiln\nclient = kiln.Client(socket={endpoint.socket!r})\n{script}"],
                          env=package_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_daemon_that_hangs_up_ends_no_process_by_sigpipe(serving):
    endpoint, _ = serving(lambda number, _: None)
    script = ("import signal, kiln\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nfrom kiln._connection import Connection\n"
              "from kiln.sockets import Endpoint\nfrom kiln.v1 import kernel_service_pb2 as pb\n"
              f"connection = Connection(Endpoint(socket={endpoint.socket!r}))\n"
              "for _ in range(2):\n    try:\n        connection.call('Lookup', pb.LookupRequest(keys=[b'k' * 32] * 4096), None)\n"
              "    except kiln.UnavailableError:\n        pass\nprint('alive')")
    done = subprocess.run([sys.executable, "-c", script], env=package_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "alive\n", done.stderr


def test_a_task_that_is_cancelled_cancels_its_call(serving):
    endpoint, fake = serving(lambda number, method: b"" if method == 5 else ok(number))

    async def work():
        async with aio.AsyncClient(socket=endpoint.socket, answer_timeout=SECONDS_MAX) as client:
            task = asyncio.ensure_future(client.toolchains())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.lookup([]) == []
            while (2, CANCEL) not in fake.seen:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(work(), SECONDS_MAX))


def test_a_call_that_waits_for_a_place_has_a_timeout(serving):
    endpoint, _ = serving(lambda number, method: b"" if method == 5 else ok(number))

    async def work():
        async with aio.AsyncClient(socket=endpoint.socket, answer_timeout=SECONDS_MAX) as client:
            waiting = [asyncio.ensure_future(client.toolchains()) for _ in range(IN_FLIGHT_MAX)]
            await asyncio.sleep(0)
            with pytest.raises(kiln.DeadlineExceededError):
                await client.lookup(["00" * 32], timeout=0.05)
            waiting.pop().cancel()
            assert await client.lookup(["00" * 32], timeout=SECONDS_MAX) == []
            for task in waiting:
                task.cancel()

    asyncio.run(asyncio.wait_for(work(), SECONDS_MAX))


def test_a_loops_client_finds_a_daemon_that_restarted(serving):
    async def work():
        endpoint, fake = serving(lambda number, _: ok(number))
        async with aio.AsyncClient(socket=endpoint.socket, answer_timeout=SECONDS_MAX) as client:
            fake.hang_up()
            for _ in range(2):
                with pytest.raises(kiln.UnavailableError):
                    await client.toolchains()
            serving(lambda number, _: ok(number))
            assert await asyncio.gather(*(client.toolchains() for _ in range(8))) == [[]] * 8

    asyncio.run(asyncio.wait_for(work(), SECONDS_MAX))


def test_a_child_that_closes_its_parents_loops_client(serving):
    """The two share what the loop watches."""
    endpoint, _ = serving(lambda number, _: ok(number))

    async def work():
        async with aio.AsyncClient(socket=endpoint.socket, answer_timeout=SECONDS_MAX) as client:
            pid = os.fork()
            if pid == 0:
                signal.alarm(SECONDS_MAX)
                await client.close()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            assert await client.toolchains() == []

    asyncio.run(asyncio.wait_for(work(), SECONDS_MAX))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_service_is_whoever_root_gave_its_directory(tmp_path):
    kiln = tmp_path / "kiln"
    assert service_uid(str(kiln)) is None
    kiln.mkdir()
    for owner, uid in ((4321, 4321), (65534, None)):
        os.chown(kiln, owner, owner)
        assert service_uid(str(kiln)) == uid
    os.chown(kiln, 4321, 4321)
    (tmp_path / "link").symlink_to(kiln)
    assert service_uid(str(tmp_path / "link")) is None
    tmp_path.chmod(0o1777)  # anybody could have made it
    assert service_uid(str(kiln)) is None
