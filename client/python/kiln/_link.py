"""One gRPC connection to one daemon, in one process. Imports gRPC."""

import os
import time
import urllib.parse
from typing import Any, Callable, Dict, Optional

import grpc

from kiln import _given, _wire
from kiln._gate import Passage, gate
from kiln._version import __version__
from kiln.artifact import Artifact
from kiln.errors import CallCancelledError, KilnError, UnavailableError, WedgedError
from kiln.sockets import Endpoint
from kiln.v1 import kernel_service_pb2 as pb

gate.register()

_SERVICE = "/kiln.v1.KernelService/"
_RECEIVE_BYTES_MAX = 64 << 20
_REQUEST_BYTES_MAX = 17 << 20
_METADATA_BYTES_MAX = 128 << 10
_CHANNEL_OPTIONS = (
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
_UNARY: Dict[str, Any] = {
    "Compile": pb.CompileResponse,
    "Lookup": pb.LookupResponse,
    "Nearest": pb.NearestResponse,
    "ListToolchains": pb.ListToolchainsResponse,
    "GetOwn": pb.GetOwnResponse,
    "PutOwn": pb.PutOwnResponse,
}


def _channel_target(path: str) -> str:
    # A URI, in which '%', '?' and '#' mean something else, and which has no bytes of other encodings.
    return "unix:" + urllib.parse.quote(os.fsencode(os.path.abspath(path)))


def _call_error(error: "grpc.RpcError | grpc.FutureCancelledError") -> KilnError:
    """What a failed call amounts to."""
    if isinstance(error, grpc.FutureCancelledError):
        return CallCancelledError("the call was cancelled")
    return _wire.rpc_error(error.code().name, error.details() or "", error.trailing_metadata())


def wedged() -> KilnError:
    return WedgedError("the daemon accepts connections but does not answer: it is stopped, stuck or starved")


class Link:
    """Thread-safe; every method blocks. Must not be used in a forked child, not even to close it. began: when looking for the daemon
    did, by time.monotonic()."""

    def __init__(self, endpoint: Endpoint, began: Optional[float] = None) -> None:
        self._endpoint = endpoint
        self._began = time.monotonic() if began is None else began
        self.socket = endpoint.locate()
        self._process = os.getpid()
        self._quiet_s = endpoint.answer_s / 2
        self._is_lost = False
        with gate.section():
            self._channel = grpc.insecure_channel(_channel_target(self.socket), options=_CHANNEL_OPTIONS)
            self._methods: Dict[str, Any] = {
                name: self._channel.unary_unary(_SERVICE + name, lambda message: message.SerializeToString(), answer.FromString)
                for name, answer in _UNARY.items()
            }
            self._fetch = self._channel.unary_stream(
                _SERVICE + "Fetch", lambda message: message.SerializeToString(), pb.FetchChunk.FromString)

    def close(self, is_lost: bool = False) -> None:
        """Cancels what is under way. `is_lost`: a call has found nobody at the other end, so there is nobody for the others either."""
        self._is_lost = self._is_lost or is_lost
        with gate.section():
            self._channel.close()

    def error(self, error: "grpc.RpcError | grpc.FutureCancelledError") -> KilnError:
        """What a failed call of this link amounts to."""
        why = _call_error(error)
        return self._closed() if self._is_lost and isinstance(why, CallCancelledError) else why

    def _closed(self) -> KilnError:
        if self._is_lost:
            return UnavailableError("the connection is lost: another call has found the daemon gone")
        return CallCancelledError("the connection was closed")

    def start(self, method: str, message: Any, deadline: Optional[float], then: Optional[Callable[[], None]] = None) -> Passage:
        """A call under way. `then` is run when it has ended, on another thread. `deadline` is a moment of time.monotonic()."""
        self._check_process()
        return self._enter(lambda: self._methods[method].future(message, timeout=seconds_left(deadline)), then)

    def _enter(self, start: Callable[[], Any], then: Optional[Callable[[], None]] = None) -> Passage:
        try:
            return gate.start(start, then)
        except ValueError:  # gRPC's word for a channel that is closed
            raise self._closed() from None

    def call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """The answer. KilnError; WedgedError where the daemon shows no sign of life for answer_s while this waits."""
        while True:
            passage = self.start(method, message, deadline)
            try:
                return self._watch(passage.call)
            except (grpc.RpcError, grpc.FutureCancelledError) as error:
                if not passage.was_interrupted:
                    raise self.error(error) from None
            except BaseException:
                passage.call.cancel()
                raise

    def _check_process(self) -> None:
        # Where a signal's handler forks in the middle of a call, the child comes back into the call as well.
        if os.getpid() != self._process:
            raise UnavailableError("this process was forked from the one that opened the connection")

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
            self._look(budget_s)
        except grpc.RpcError as error:
            # Any other failure is an answer, or the end of the connection, which the call itself reports.
            return bool(error.code() != grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    def _look(self, budget_s: float) -> None:
        """Asks for nothing."""
        while True:
            passage = self.start("Lookup", pb.LookupRequest(), deadline_of(budget_s))
            try:
                passage.call.result()
                return
            except (grpc.RpcError, grpc.FutureCancelledError):
                if not passage.was_interrupted:
                    raise

    def greet(self) -> None:
        """Asks for a sign of life. UnavailableError where there is nobody, WedgedError where nothing comes."""
        try:
            self._look(self._endpoint.greeting_s(self._began))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise wedged() from None
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise UnavailableError(f"the daemon on {self.socket} went away: {error.details()}") from None
            raise self.error(error) from None

    def fetch(self, digest: bytes, deadline: Optional[float]) -> bytes:
        """A blob, checked against its digest. DataLossError; WedgedError as with call()."""
        request = pb.FetchRequest(digest=digest)
        patience_s = self._quiet_s
        while True:
            self._check_process()
            # gRPC's iterator waits for the next message without a limit of its own: a limit of the call stands in for it.
            is_last = deadline is not None and deadline <= time.monotonic() + patience_s
            passage = self._enter(lambda: self._fetch(request, timeout=seconds_left(deadline) if is_last else patience_s))
            try:
                content = b"".join(chunk.content for chunk in passage.call)
                _wire.check_digest(content, digest)
                return content
            except grpc.RpcError as error:
                if passage.was_interrupted:
                    continue
                if is_last or error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise self.error(error) from None
                if not self.shows_life(self._quiet_s):
                    raise wedged() from None
                patience_s *= 2  # it is there, and slow
            except BaseException:
                passage.call.cancel()
                raise

    def whole(self, artifact: Artifact, deadline: Optional[float]) -> Artifact:
        """With the contents that were too large to travel in the answer. DataLossError; NotFoundError where one has been evicted."""
        contents = {
            name: self.fetch(bytes.fromhex(stage.digest), deadline)
            for name, stage in artifact.stages.items() if stage.content is None
        }
        return artifact.with_contents(contents) if contents else artifact


def deadline_of(timeout_s: Optional[float]) -> Optional[float]:
    """InvalidArgumentError for what is no time to wait."""
    seconds = _given.timeout(timeout_s)
    return None if seconds is None else time.monotonic() + seconds


def seconds_left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
