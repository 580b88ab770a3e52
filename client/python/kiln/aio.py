"""The client for asyncio."""

import asyncio
from typing import Any, AsyncIterator, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import grpc
import grpc.aio

from kiln import _wire
from kiln._link import CHANNEL_OPTIONS, UNARY, call_error, channel_target, deadline_of, seconds_left, wedged
from kiln.artifact import Artifact, Toolchain
from kiln.client import _LOOKUP_KEYS_MAX, _key_bytes
from kiln.errors import KilnError
from kiln.request import CompileRequest
from kiln.sockets import Endpoint
from kiln.v1 import kernel_service_pb2 as pb

__all__ = ["AsyncClient"]

_SERVICE = "/kiln.v1.KernelService/"


class AsyncClient:
    """As Client, for one event loop:

        async with kiln.AsyncClient() as client:
            artifact = await client.compile(request)

    Connects on entering: UnavailableError and PermissionDeniedError as Client does. Calls are not repeated by
    themselves. Not thread-safe, and not to be carried into a forked child.
    """

    def __init__(self, *, socket: str = "", root: str = "", server_uid: Optional[int] = None,
                 connect_timeout: float = 0.1, answer_timeout: float = 1.0) -> None:
        self._endpoint = Endpoint(socket, root, server_uid, connect_timeout, answer_timeout)
        self._channel: Optional[grpc.aio.Channel] = None
        self._methods: Dict[str, Any] = {}
        self._fetch: Any = None

    async def __aenter__(self) -> "AsyncClient":
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Finds the daemon and waits for a sign of life."""
        path = await asyncio.get_running_loop().run_in_executor(None, self._endpoint.locate)
        self._channel = grpc.aio.insecure_channel(channel_target(path), options=CHANNEL_OPTIONS)
        self._methods = {
            name: self._channel.unary_unary(_SERVICE + name, lambda message: message.SerializeToString(), answer.FromString)
            for name, answer in UNARY.items()
        }
        self._fetch = self._channel.unary_stream(
            _SERVICE + "Fetch", lambda message: message.SerializeToString(), pb.FetchChunk.FromString)
        try:
            await self._greet()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the connection."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def compile(self, request: CompileRequest, *, timeout: Optional[float] = None) -> Artifact:
        """As Client.compile."""
        message = _wire.request_message(request)
        deadline = deadline_of(timeout)
        return await self._whole(_wire.artifact(await self._call("Compile", message, deadline)), deadline)

    async def compile_many(self, requests: Iterable[CompileRequest], *, timeout: Optional[float] = None,
                           in_flight: int = 64) -> "AsyncIterator[Tuple[int, Union[Artifact, KilnError]]]":
        """Yields (index of the request, its artifact or why there is none) as answers come, with no more than `in_flight`
        calls at once. `timeout` is that of each. Ending the iteration early cancels what is under way."""
        waiting: "Dict[asyncio.Task[Artifact], int]" = {}
        source = enumerate(requests)
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
        raw = [_key_bytes(key) for key in keys]
        deadline = deadline_of(timeout)
        found: List[Optional[Artifact]] = []
        for start in range(0, len(raw), _LOOKUP_KEYS_MAX):
            answer = await self._call("Lookup", pb.LookupRequest(keys=raw[start:start + _LOOKUP_KEYS_MAX]), deadline)
            found += [_wire.stored_artifact(entry) if entry.found else None for entry in answer.entries]
        return found

    async def fetch(self, digest: str, *, timeout: Optional[float] = None) -> bytes:
        """As Client.fetch."""
        return await self._blob(_key_bytes(digest), deadline_of(timeout))

    async def toolchains(self, *, timeout: Optional[float] = None) -> List[Toolchain]:
        """As Client.toolchains."""
        return _wire.toolchains(await self._call("ListToolchains", pb.ListToolchainsRequest(), deadline_of(timeout)))

    async def _greet(self) -> None:
        try:
            await self._methods["Lookup"](pb.LookupRequest(), timeout=self._endpoint.greeting_s)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise wedged() from None
            raise call_error(error) from None

    async def _call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        call = self._methods[method](message, timeout=seconds_left(deadline))
        answer = asyncio.ensure_future(_await(call))
        quiet_s = self._endpoint.answer_s / 2
        try:
            while not (await asyncio.wait([answer], timeout=quiet_s))[0]:
                if not (await self._answers(quiet_s / 2) or await self._answers(quiet_s / 2)):
                    raise wedged()
            return answer.result()
        except grpc.RpcError as error:
            raise call_error(error) from None
        finally:
            answer.cancel()

    async def _answers(self, budget_s: float) -> bool:
        try:
            await self._methods["Lookup"](pb.LookupRequest(), timeout=budget_s)
        except grpc.RpcError as error:
            return bool(error.code() != grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    async def _blob(self, digest: bytes, deadline: Optional[float]) -> bytes:
        chunks = []
        try:
            async for chunk in self._fetch(pb.FetchRequest(digest=digest), timeout=seconds_left(deadline)):
                chunks.append(chunk.content)
        except grpc.RpcError as error:
            raise call_error(error) from None
        content = b"".join(chunks)
        _wire.check_digest(content, digest)
        return content

    async def _whole(self, artifact: Artifact, deadline: Optional[float]) -> Artifact:
        contents = {
            name: await self._blob(bytes.fromhex(stage.digest), deadline)
            for name, stage in artifact.stages.items() if stage.content is None
        }
        return artifact.with_contents(contents) if contents else artifact


async def _await(call: Any) -> Any:
    return await call


def _result(task: "asyncio.Task[Artifact]") -> Union[Artifact, KilnError]:
    try:
        return task.result()
    except KilnError as error:
        return error
