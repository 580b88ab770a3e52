"""The client for asyncio."""

import asyncio
import contextlib
from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from kiln import _validate, _wire
from kiln._fork_guard import PendingCall
from kiln._link import Link, deadline_of, wedged
from kiln.artifact import Artifact, ArtifactOutput, NearestArtifact, Toolchain
from kiln.client import _LOOKUP_KEYS_MAX, _OWN_KEYS_MAX, _still_to_ask
from kiln.errors import KilnError, UnavailableError
from kiln.request import CompileRequest
from kiln.sockets import Endpoint, Place
from kiln.v1 import kernel_service_pb2 as pb

__all__ = ["AsyncClient"]

_T = TypeVar("_T")


class AsyncClient:
    """As Client, for one event loop:

        async with kiln.AsyncClient() as client:
            artifact = await client.compile(request)

    Connects on entering: UnavailableError and PermissionDeniedError as Client. Its constructor raises InvalidArgumentError. Only
    calls that a fork of this process interrupted are repeated. Not thread-safe. A forked child gets UnavailableError from an
    inherited one and makes its own, as it must not go on with the event loop either.
    """

    def __init__(self, *, socket: Place = "", root: Place = "",
                 server_uid: Optional[int] = None, connect_timeout: float = 0.1, answer_timeout: float = 1.0) -> None:
        self._endpoint = Endpoint(socket, root, server_uid, connect_timeout, answer_timeout)
        self._link: Optional[Link] = None

    async def __aenter__(self) -> "AsyncClient":
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Finds the daemon and waits for a sign of life."""
        await self.close()
        self._link = await _in_thread(lambda: Link.greeted(self._endpoint))

    async def close(self) -> None:
        """Closes the connection. Calls under way raise CallCancelledError."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def compile(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Artifact:
        """As Client.compile."""
        message = _wire.request_message(request)
        deadline = deadline_of(timeout)
        return await self._whole(_wire.artifact(await self._call("Compile", message, deadline)), deadline)

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
        raw = _wire.artifact_keys(keys)
        deadline = deadline_of(timeout)
        found: List[Optional[Artifact]] = []
        for start in range(0, len(raw), _LOOKUP_KEYS_MAX):
            answer = await self._call("Lookup", pb.LookupRequest(keys=raw[start:start + _LOOKUP_KEYS_MAX]), deadline)
            found += [_wire.stored_artifact(entry) if entry.found else None for entry in answer.entries]
        return found

    async def nearest(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Optional[NearestArtifact]:
        """As Client.nearest."""
        message = pb.NearestRequest(request=_wire.request_message(request))
        return _wire.nearest(await self._call("Nearest", message, deadline_of(timeout)))

    async def fetch(self, digest: str, *, timeout: Optional[float] = None) -> bytes:
        """As Client.fetch."""
        return await self._blob(_wire.digest_bytes(digest, "digest"), deadline_of(timeout))

    async def get_own(self, keys: Sequence[bytes], *, timeout: Optional[float] = None) -> Dict[bytes, Dict[str, bytes]]:
        """As Client.get_own."""
        deadline = deadline_of(timeout)
        found: Dict[bytes, Dict[str, bytes]] = {}
        left = _wire.own_keys(keys)
        while left:
            answer = await self._call("GetOwn", pb.GetOwnRequest(keys=left[:_OWN_KEYS_MAX]), deadline)
            found.update(_wire.user_cache(answer))
            left = _still_to_ask(left, answer)
        return found

    async def put_own(self, entries: "Mapping[bytes, Mapping[str, Union[bytes, ArtifactOutput]]]", *,
                      timeout: Optional[float] = None) -> None:
        """As Client.put_own."""
        await self._call("PutOwn", _wire.put_own_message(entries), deadline_of(timeout))

    async def toolchains(self, *, timeout: Optional[float] = None) -> List[Toolchain]:
        """As Client.toolchains."""
        return _wire.toolchains(await self._call("ListToolchains", pb.ListToolchainsRequest(), deadline_of(timeout)))

    def _connected(self) -> Link:
        if self._link is None:
            raise UnavailableError("the client is not connected")
        return self._link

    async def _call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """Makes a call with gRPC's blocking interface: calls of gRPC's asyncio cannot be ended in time for a fork."""
        link = self._connected()
        while True:
            pending_call, ended = _passage()
            try:
                link.start(pending_call, method, message, deadline)
                await self._watch(link, ended)
            except BaseException:
                pending_call.cancel()
                raise
            if not pending_call.is_void:
                return link.answer(pending_call)

    async def _watch(self, link: Link, ended: "asyncio.Future[None]") -> None:
        quiet_s = self._endpoint.answer_s / 2
        while not (await asyncio.wait([ended], timeout=quiet_s))[0]:
            if not await _in_thread(lambda: link.shows_life(quiet_s)):
                raise wedged()

    async def _blob(self, digest: bytes, deadline: Optional[float]) -> bytes:
        link = self._connected()
        return await _in_thread(lambda: link.fetch(digest, deadline))

    async def _whole(self, artifact: Artifact, deadline: Optional[float]) -> Artifact:
        contents = {
            name: await self._blob(bytes.fromhex(stage.digest), deadline)
            for name, stage in artifact.stages.items() if stage.content is None
        }
        return artifact.with_contents(contents) if contents else artifact


async def _in_thread(work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _passage() -> "Tuple[PendingCall, asyncio.Future[None]]":
    """For a call, and what is done when the call has ended."""
    loop = asyncio.get_running_loop()
    ended: "asyncio.Future[None]" = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed; nobody waits
            loop.call_soon_threadsafe(end)

    return PendingCall(tell), ended


def _result(task: "asyncio.Task[Artifact]") -> Union[Artifact, KilnError]:
    try:
        return task.result()
    except KilnError as error:
        return error.with_traceback(None)  # the frames would keep the task and the error alive
