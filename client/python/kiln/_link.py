"""One gRPC connection to one daemon, in one process. Imports gRPC."""

import os
import time
from typing import Any, Dict, Optional

import grpc

from kiln import _wire
from kiln._version import __version__
from kiln.errors import CallCancelledError, KilnError, UnavailableError, WedgedError
from kiln.sockets import Endpoint
from kiln.v1 import kernel_service_pb2 as pb

_SERVICE = "/kiln.v1.KernelService/"
_RECEIVE_BYTES_MAX = 64 << 20
_REQUEST_BYTES_MAX = 17 << 20
_METADATA_BYTES_MAX = 128 << 10
CHANNEL_OPTIONS = (
    # A connection of this channel's own: one that a parent process opened is of no use to its child.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", _RECEIVE_BYTES_MAX),
    ("grpc.max_send_message_length", _REQUEST_BYTES_MAX),
    ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
    ("grpc.primary_user_agent", f"kiln-python/{__version__}"),
)
# Method: what it answers with.
UNARY: Dict[str, Any] = {
    "Compile": pb.CompileResponse,
    "Lookup": pb.LookupResponse,
    "ListToolchains": pb.ListToolchainsResponse,
}


def channel_target(path: str) -> str:
    return "unix:" + os.path.abspath(path)


def call_error(error: grpc.RpcError) -> KilnError:
    """What a failed call amounts to."""
    return _wire.rpc_error(error.code().name, error.details() or "", error.trailing_metadata())


def wedged() -> KilnError:
    return WedgedError("the daemon accepts connections but does not answer: it is stopped, stuck or starved")


class Link:
    """Thread-safe; every method blocks. Must not be used in a forked child, not even to close it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.socket = endpoint.locate()
        self._quiet_s = endpoint.answer_s / 2
        self._greeting_s = endpoint.greeting_s
        self._channel = grpc.insecure_channel(channel_target(self.socket), options=CHANNEL_OPTIONS)
        self._methods: Dict[str, Any] = {
            name: self._channel.unary_unary(_SERVICE + name, lambda message: message.SerializeToString(), answer.FromString)
            for name, answer in UNARY.items()
        }
        self.compile_stream = self._channel.stream_stream(
            _SERVICE + "CompileStream", lambda message: message.SerializeToString(), pb.CompileStreamResponse.FromString)
        self._fetch = self._channel.unary_stream(
            _SERVICE + "Fetch", lambda message: message.SerializeToString(), pb.FetchChunk.FromString)

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """The answer. KilnError; WedgedError where the daemon shows no sign of life for answer_s while this waits.
        `deadline` is a moment of time.monotonic()."""
        call = self._methods[method].future(message, timeout=seconds_left(deadline))
        try:
            return self._watch(call)
        except grpc.RpcError as error:
            raise call_error(error) from None
        except grpc.FutureCancelledError:
            raise CallCancelledError("the call was cancelled") from None
        except BaseException:
            call.cancel()
            raise

    def _watch(self, call: Any) -> Any:
        while True:
            try:
                return call.result(timeout=self._quiet_s)
            except grpc.FutureTimeoutError:
                if not self.shows_life(self._quiet_s):
                    raise wedged() from None

    def shows_life(self, budget_s: float) -> bool:
        """Asks for nothing, so that any answer at all is a sign of life. Asks twice before it says no: where this process
        itself was held up, the first time may be over before the daemon had any of it."""
        return self._answers(budget_s / 2) or self._answers(budget_s / 2)

    def _answers(self, budget_s: float) -> bool:
        try:
            self._methods["Lookup"](pb.LookupRequest(), timeout=budget_s)
        except grpc.RpcError as error:
            # Any other failure is an answer, or the end of the connection, which the call itself reports.
            return bool(error.code() != grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    def greet(self) -> None:
        """Asks for a sign of life. UnavailableError where there is nobody, WedgedError where nothing comes."""
        try:
            self._methods["Lookup"](pb.LookupRequest(), timeout=self._greeting_s)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise wedged() from None
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise UnavailableError(f"the daemon on {self.socket} went away: {error.details()}") from None
            raise call_error(error) from None

    def fetch(self, digest: bytes, deadline: Optional[float]) -> bytes:
        """A blob, checked against its digest. DataLossError."""
        try:
            chunks = self._fetch(pb.FetchRequest(digest=digest), timeout=seconds_left(deadline))
            content = b"".join(chunk.content for chunk in chunks)
        except grpc.RpcError as error:
            raise call_error(error) from None
        _wire.check_digest(content, digest)
        return content


def deadline_of(timeout_s: Optional[float]) -> Optional[float]:
    return None if timeout_s is None else time.monotonic() + timeout_s


def seconds_left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
