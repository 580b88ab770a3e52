"""One gRPC connection to one daemon, in one process. Imports gRPC."""

import _thread
import os
import time
import urllib.parse
from typing import Any, Callable, Dict, Optional

import grpc

from kiln import _validate, _process, _wire
from kiln._fork_guard import Outcome, PendingCall, gate
from kiln._version import __version__
from kiln.artifact import Artifact
from kiln.errors import CallCancelledError, DeadlineExceededError, KilnError, UnavailableError, WedgedError
from kiln.sockets import Endpoint
from kiln.v1 import kernel_service_pb2 as pb

gate.register()

_SERVICE = "/kiln.v1.KernelService/"
_RECEIVE_BYTES_MAX = 64 << 20
_REQUEST_BYTES_MAX = 17 << 20
_METADATA_BYTES_MAX = 128 << 10
# How much later than its deadline a call may end: gRPC's thread has to be given its turn.
_LATE_S = 0.5
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
    """Thread-safe; every method blocks. Of no use in a forked child. began: when looking for the daemon did, by time.monotonic().

    gRPC ends a call by its deadline on a thread of its own. Should that be stopped, by what another program does with it, no call ends any
    more. So whatever waits here has a limit of its own besides, and as long as a call is not ended by its deadline, the link is let go of
    rather than closed, which would wait for that thread as well."""

    def __init__(self, endpoint: Endpoint, began: Optional[float] = None) -> None:
        self._endpoint = endpoint
        self._began = time.monotonic() if began is None else began
        self.socket = endpoint.locate()
        self._process = os.getpid()
        self._quiet_s = endpoint.answer_s / 2
        self._is_lost = False
        self._late: Optional[PendingCall] = None  # one that gRPC was to end by its deadline, and did not
        gate.errand(self._open)

    def _open(self) -> None:
        self._channel = grpc.insecure_channel(_channel_target(self.socket), options=_CHANNEL_OPTIONS)
        self._methods: Dict[str, Any] = {
            name: self._channel.unary_unary(_SERVICE + name, lambda message: message.SerializeToString(), answer.FromString)
            for name, answer in _UNARY.items()
        }
        self._fetch = self._channel.unary_stream(
            _SERVICE + "Fetch", lambda message: message.SerializeToString(), pb.FetchChunk.FromString)

    @classmethod
    def greeted(cls, endpoint: Endpoint, began: Optional[float] = None) -> "Link":
        """One at whose other end somebody has shown a sign of life. KilnError as of greet()."""
        link = cls(endpoint, began)
        try:
            link.greet()
        except BaseException:
            link.close()
            raise
        return link

    def close(self, is_lost: bool = False) -> None:
        """Cancels what is under way. `is_lost`: a call has found nobody at the other end, so there is nobody for the others either."""
        self._is_lost = self._is_lost or is_lost
        if os.getpid() != self._process or self._late is not None and not self._late.end.has_come:
            _process.abandon(self)
            return
        gate.errand(self._channel.close)

    def answer(self, pending_call: PendingCall) -> Any:
        """That of a call of this link that has ended, once. KilnError."""
        error, pending_call.error = pending_call.error, None
        if error is None:
            return pending_call.answer
        try:
            raise (self._closed() if isinstance(error, CallCancelledError) and self._is_lost else error) from None
        finally:
            del error  # or its own frames would have it, and keep one another and all the callers' until somebody collects the garbage

    def _closed(self) -> KilnError:
        if self._is_lost:
            return UnavailableError("the connection is lost: another call has found the daemon gone")
        return CallCancelledError("the connection was closed")

    def start(self, pending_call: PendingCall, method: str, message: Any, deadline: Optional[float]) -> None:
        """Makes a call. `deadline` is a moment of time.monotonic()."""
        self._enter(pending_call, lambda: self._methods[method].future(message, timeout=seconds_left(deadline)), _unary_outcome)

    def _enter(self, pending_call: PendingCall, start: Callable[[], Any], read: Callable[[Any], Optional[Outcome]]) -> None:
        # Where a signal's handler forks in the middle of a call, the child comes back into the call as well.
        if os.getpid() != self._process:
            raise UnavailableError("this process was forked from the one that opened the connection")

        def begin() -> Any:
            try:
                return start()
            except ValueError:  # gRPC's word for a channel that is closed
                raise self._closed() from None

        gate.start(pending_call, begin, read)

    def call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """The answer. KilnError; WedgedError where the daemon shows no sign of life for answer_s while this waits."""
        while True:
            pending_call = PendingCall()
            try:
                self.start(pending_call, method, message, deadline)
                while not pending_call.end.wait(self._quiet_s):
                    if not self.shows_life(self._quiet_s):
                        raise wedged()
            except BaseException:
                pending_call.cancel()
                raise
            if not pending_call.is_void:
                return self.answer(pending_call)

    def shows_life(self, budget_s: float) -> bool:
        """Asks for nothing, so that any answer at all is a sign of life. Asks twice before it says no: where this process
        itself was held up, the first time may be over before the daemon had any of it."""
        return self._answers(budget_s / 2) or self._answers(budget_s / 2)

    def _answers(self, budget_s: float) -> bool:
        # Any other failure is an answer, or the end of the connection, which the call itself reports.
        return not isinstance(self._look(budget_s), WedgedError)

    def _look(self, budget_s: float) -> Optional[KilnError]:
        """Asks for nothing. What comes of it: WedgedError where that is nothing."""
        while True:
            pending_call = PendingCall()
            try:
                # Not by a deadline that is running before it begins.
                self._enter(pending_call, lambda: self._methods["Lookup"].future(pb.LookupRequest(), timeout=budget_s), _unary_outcome)
                if not pending_call.end.wait_in_pieces(budget_s + _LATE_S):
                    self._late = pending_call
                    return wedged()
            except BaseException:
                pending_call.cancel()
                raise
            if not pending_call.is_void:
                return self._said(pending_call)

    def _said(self, pending_call: PendingCall) -> Optional[KilnError]:
        try:
            self.answer(pending_call)
        except DeadlineExceededError:
            return wedged()
        except KilnError as error:
            return error.with_traceback(None)  # whose frames lead to whoever gets it
        return None

    def greet(self) -> None:
        """Asks for a sign of life. UnavailableError where there is nobody, WedgedError where nothing comes."""
        why = self._look(self._endpoint.greeting_s(self._began))
        try:
            if isinstance(why, UnavailableError) and not isinstance(why, WedgedError):
                raise UnavailableError(f"the daemon on {self.socket} went away: {why.message}")
            if why is not None:
                raise why
        finally:
            del why  # as in answer()

    def fetch(self, digest: bytes, deadline: Optional[float]) -> bytes:
        """A blob, checked against its digest. DataLossError; WedgedError as with call()."""
        request = pb.FetchRequest(digest=digest)
        patience_s = self._quiet_s
        while True:
            # The deadline alone would not notice that nothing comes any more: a limit of the call that grows stands in for it.
            left_s = seconds_left(deadline)
            limit_s = patience_s if left_s is None else min(left_s, patience_s)
            pending_call = PendingCall()
            try:
                self._enter(pending_call, lambda: _joined(self._fetch(request, timeout=limit_s), pending_call), lambda _: None)
                has_ended = pending_call.end.wait(limit_s + _LATE_S)
            except BaseException:
                pending_call.cancel()
                raise
            if not has_ended:
                pending_call.cancel()
            elif pending_call.is_void:
                continue
            elif limit_s == left_s or not isinstance(pending_call.error, DeadlineExceededError):
                content: bytes = self.answer(pending_call)
                _wire.check_digest(content, digest)
                return content
            if not self.shows_life(self._quiet_s):
                raise wedged()
            patience_s *= 2  # it is there, and slow

    def whole(self, artifact: Artifact, deadline: Optional[float]) -> Artifact:
        """With the contents that were too large to travel in the answer. DataLossError; NotFoundError where one has been evicted."""
        contents = {
            name: self.fetch(bytes.fromhex(stage.digest), deadline)
            for name, stage in artifact.stages.items() if stage.content is None
        }
        return artifact.with_contents(contents) if contents else artifact


def _outcome(read: Callable[[], Any]) -> Outcome:
    """What `read` has of a call that has ended. Not for the main thread, since what it reads is gRPC's."""
    try:
        try:
            return read(), None
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            error.__traceback__ = None  # with which a call that raises itself would be left to whatever thread collects the garbage
            return None, _call_error(error)
    except BaseException as error:  # whoever waits is told
        return None, error


def _unary_outcome(call: Any) -> Outcome:
    return _outcome(call.result)


def _joined(stream: Any, pending_call: PendingCall) -> Any:
    """The same. The pending_call ends with the contents of all its messages. On a thread of its own, since gRPC's iterator waits for the next
    message without a limit."""
    _thread.start_new_thread(lambda: pending_call.end_with(_outcome(lambda: b"".join(chunk.content for chunk in stream))), ())
    return stream


def deadline_of(timeout_s: Optional[float]) -> Optional[float]:
    """InvalidArgumentError for what is no time to wait."""
    seconds = _validate.timeout(timeout_s)
    return None if seconds is None else time.monotonic() + seconds


def seconds_left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
