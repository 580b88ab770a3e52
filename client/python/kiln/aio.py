"""The client for asyncio."""

import asyncio
import os
import time
from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from kiln import _calls, _process, _validate
from kiln._connection import (ANSWER, IN_FLIGHT_MAX, cancel_frame, cancelled, deadline_of, request_frame, result, seconds_left,
                              too_late, wedged)
from kiln._hot import HotReader
from kiln._signals import suppressed
from kiln._unreported_uses import UnreportedUses
from kiln.artifact import Artifact, ArtifactOutput, NearestArtifact, Toolchain
from kiln.errors import DeadlineExceededError, KilnError, UnavailableError, WedgedError
from kiln.request import CompileRequest
from kiln.sockets import PREAMBLE, Endpoint, Place, _Socket
from kiln.v1 import kernel_service_pb2 as pb

_T = TypeVar("_T")
_READ_BYTES = 1 << 20
_NO_ANSWER = (-1, b"")  # the connection has ended


class AsyncClient:
    """As Client, for one event loop:

        async with kiln.AsyncClient() as client:
            artifact = await client.compile(request)

    Connects on entering: UnavailableError and PermissionDeniedError as Client, needs_daemon included. Its constructor raises InvalidArgumentError. No
    call is repeated, but a call after the daemon went away connects again. Not thread-safe. A forked child gets UnavailableError
    from an inherited one and makes its own, as it must not go on with the event loop either.
    """

    def __init__(self, *, socket: Place = "", root: Place = "",
                 server_uid: Optional[int] = None, connect_timeout: float = 0.1, answer_timeout: float = 1.0, needs_daemon: bool = False) -> None:
        self._needs_daemon = needs_daemon
        self._endpoint = Endpoint(socket, root, server_uid, connect_timeout, answer_timeout)
        self._hot = HotReader(self._endpoint, UnreportedUses(self._endpoint, self._tell_if_connected))
        self._stream: Optional[_Stream] = None
        self._is_open = False  # between connect() and close(), with a daemon or without
        self._reconnecting = asyncio.Lock()

    async def __aenter__(self) -> "AsyncClient":
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Finds the daemon and waits for a sign of life."""
        await self.close()
        try:
            await self._greet()
        except UnavailableError as error:
            if self._needs_daemon or isinstance(error, WedgedError) or self._hot.toolchains() is None:
                raise
        self._is_open = True

    async def _greet(self) -> None:
        began = time.monotonic()
        self._stream = await _Stream.open(self._endpoint)
        try:
            await self._call("Lookup", pb.LookupRequest(), time.monotonic() + self._endpoint.greeting_s(began))
        except BaseException as error:
            await self.close()
            if isinstance(error, DeadlineExceededError):
                raise wedged() from None
            raise

    async def close(self) -> None:
        """Closes the connection. Calls under way raise CallCancelledError."""
        stream, self._stream, self._is_open = self._stream, None, False
        if stream is not None:
            with suppressed(KilnError):
                self._tell_uses(stream)
            stream.close(cancelled)

    async def compile(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Artifact:
        """As Client.compile."""
        deadline = deadline_of(timeout)
        if found := self._hot.find(request):
            await asyncio.sleep(0)  # a task that finds one after the other lets the others run
            return found
        return await self._run(_calls.compiled(request), deadline)

    async def compile_many(self, requests: Iterable[CompileRequest], *, timeout: Optional[float] = None,
                           in_flight: int = 64) -> "AsyncIterator[Tuple[int, Union[Artifact, KilnError]]]":
        """Yields (index of the request, Artifact or KilnError) as answers come, with at most `in_flight` calls at once. timeout: of
        each request. Ending the iteration early cancels the calls under way."""
        _validate.count(in_flight, "in_flight")
        _validate.timeout(timeout)
        waiting: "Dict[asyncio.Task[Artifact], int]" = {}
        source = enumerate(_validate.each(requests, "requests"))
        try:
            while True:
                for index, request in source:
                    waiting[asyncio.ensure_future(self.compile(request, timeout=timeout))] = index
                    if len(waiting) >= in_flight:
                        break
                if not waiting:
                    return
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    index = waiting.pop(task)
                    yield index, _result(task)
        finally:
            for task in waiting:
                task.cancel()

    async def lookup(self, keys: Sequence[str], *, timeout: Optional[float] = None) -> List[Optional[Artifact]]:
        """As Client.lookup."""
        return await self._run(_calls.looked_up(keys), deadline_of(timeout))

    async def nearest(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Optional[NearestArtifact]:
        """As Client.nearest."""
        return await self._run(_calls.nearest(request), deadline_of(timeout))

    async def fetch(self, digest: str, *, timeout: Optional[float] = None) -> bytes:
        """As Client.fetch."""
        return await self._run(_calls.fetched(digest), deadline_of(timeout))

    async def get_own(self, keys: Sequence[bytes], *, timeout: Optional[float] = None, tunings: bool = False,
                      job: str = "") -> Dict[bytes, Dict[str, bytes]]:
        """As Client.get_own."""
        return await self._run(_calls.own(keys, tunings, job), deadline_of(timeout))

    async def put_own(self, entries: "Mapping[bytes, Mapping[str, Union[bytes, ArtifactOutput]]]", *,
                      timeout: Optional[float] = None, tunings: bool = False, job: str = "") -> None:
        """As Client.put_own."""
        await self._run(_calls.put_own(entries, tunings, job), deadline_of(timeout))

    async def toolchains(self, *, timeout: Optional[float] = None) -> List[Toolchain]:
        """As Client.toolchains."""
        return await self._run(_calls.toolchains(), deadline_of(timeout))

    async def _run(self, calls: _calls.Calls[_T], deadline: Optional[float]) -> _T:
        answer = None
        try:
            while True:
                answer = await self._call(*calls.send(answer), deadline)
        except StopIteration as end:
            result: _T = end.value
            return result

    async def _call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        if self._stream is None or self._stream.has_ended:
            await self._reconnect()
        if self._stream is None:
            raise UnavailableError("the client is not connected")
        self._tell_uses(self._stream)
        return await self._stream.call(method, message, deadline)

    def _tell_if_connected(self) -> None:
        if self._stream is not None and not self._stream.has_ended:
            with suppressed(KilnError):  # of a forked child
                self._tell_uses(self._stream)

    def _tell_uses(self, stream: "_Stream") -> None:
        """Nobody waits for the answer."""
        if uses := self._hot.uses.take():
            stream._start("NoteUses", pb.NoteUsesRequest.FromString(uses), None)

    async def _reconnect(self) -> None:
        async with self._reconnecting:
            ended = self._stream
            if not self._is_open or ended is not None and not ended.has_ended:
                return
            opened = await _Stream.open(self._endpoint)
            if self._stream is ended and self._is_open:
                self._stream = opened
            else:  # close() or connect() came in between
                opened.close(cancelled)


class _Stream:
    """One connection for one event loop: any number of calls at once."""

    def __init__(self, endpoint: Endpoint, path: str, connection: _Socket, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self._path = path
        self._socket = connection
        self._writer = writer
        self._process = os.getpid()
        self._quiet_s = endpoint.answer_s / 2
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._last = 0
        self._waiting: "Dict[int, asyncio.Future[Tuple[int, bytes]]]" = {}
        self._received = 0  # grows with everything that comes
        self._end: Optional[Callable[[], KilnError]] = None
        writer.write(PREAMBLE)
        self._reading = asyncio.ensure_future(self._read(reader))
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._socket.close()

    @classmethod
    async def open(cls, endpoint: Endpoint) -> "_Stream":
        path, connection = await asyncio.get_running_loop().run_in_executor(None, endpoint.connect)
        return cls(endpoint, path, connection, *await asyncio.open_unix_connection(sock=connection))

    def close(self, why: Callable[[], KilnError]) -> None:
        """Calls under way raise what it gives. In a forked child it does nothing: the event loop watches the parent's socket."""
        if os.getpid() != self._process:
            return
        self._end = self._end or why
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_result(_NO_ANSWER)
        self._reading.cancel()
        self._writer.close()

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    async def call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """As Connection.call()."""
        entering = self._room.acquire()
        try:
            await (asyncio.wait_for(entering, seconds_left(deadline)) if self._room.locked() else entering)
        except asyncio.TimeoutError:
            raise too_late() from None
        try:
            return await self._ask(method, message, deadline)
        finally:
            self._room.release()

    async def _ask(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        number, answered = self._start(method, message, deadline)
        try:
            await self._wait(answered, deadline)
            if answered.result() is _NO_ANSWER:
                self._check()
            return result(method, *answered.result())
        finally:
            if not answered.done() and os.getpid() == self._process:
                self._writer.write(cancel_frame(number))
                answered.cancel()

    def _start(self, method: str, message: Any, deadline: Optional[float]) -> "Tuple[int, asyncio.Future[Tuple[int, bytes]]]":
        if os.getpid() != self._process:
            raise UnavailableError("this process was forked from the one that opened the connection")
        self._check()
        number = self._last = self._last + 1
        frame = request_frame(number, method, message, deadline)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(frame)
        return number, answered

    def _check(self) -> None:
        if self._end is not None:
            raise self._end()

    async def _wait(self, answered: "asyncio.Future[Tuple[int, bytes]]", deadline: Optional[float]) -> None:
        silences = 0
        while True:
            received, left_s = self._received, seconds_left(deadline)
            pause_s = self._quiet_s / 2 if silences else self._quiet_s
            if (await asyncio.wait([answered], timeout=pause_s if left_s is None else min(pause_s, left_s)))[0]:
                return
            if left_s is not None and left_s <= pause_s:
                raise too_late()
            if self._received != received:
                silences = 0
            elif silences == 2:
                raise wedged()
            else:
                silences += 1
                self._start("Lookup", pb.LookupRequest(), None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                length, number, code = ANSWER.unpack(await reader.readexactly(ANSWER.size))
                body = bytearray()
                left = length + 4 - ANSWER.size
                while left > len(body):
                    piece = await reader.read(min(left - len(body), _READ_BYTES))
                    if not piece:
                        raise EOFError
                    body += piece
                    self._received += 1
                self._received += 1
                answered = self._waiting.pop(number, None)
                if answered is not None and not answered.done():
                    answered.set_result((code, bytes(body)))
        except (OSError, EOFError):  # IncompleteReadError is an EOFError
            self.close(lambda: UnavailableError(f"the daemon on {self._path} went away"))


def _result(task: "asyncio.Task[Artifact]") -> Union[Artifact, KilnError]:
    try:
        return task.result()
    except KilnError as error:
        return error.with_traceback(None)  # the frames would keep the task and the error alive
