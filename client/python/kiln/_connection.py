"""One connection to one daemon, in the light protocol (protos/kiln/v1/light.proto). A blocking socket, no thread."""

import math
import os
import select
import socket
import struct
import time
from typing import Any, Dict, Optional, Set, Tuple

from kiln import _process, _validate, _wire
from kiln._signals import reraise_from_handler, suppressed
from kiln.errors import CallCancelledError, DeadlineExceededError, InternalError, KilnError, UnavailableError, WedgedError
from kiln.sockets import PREAMBLE, Endpoint, frame
from kiln.v1 import kernel_service_pb2 as pb
from kiln.v1 import light_pb2

# The daemon reads up to 512 requests before it answers. Questions for a sign of life find room beside these.
IN_FLIGHT_MAX = 250
ANSWER = struct.Struct("<IQB")
_COUNTED = 4  # the length counts what follows it
_TIMEOUT_MS_MAX = (1 << 32) - 1
_POLL_MS_MAX = (1 << 31) - 1
_RECEIVE_BYTES = 1 << 18
# Method: its number, and what it answers with.
_METHODS: Dict[str, Any] = {
    "Compile": (light_pb2.LIGHT_METHOD_COMPILE, pb.CompileResponse),
    "Lookup": (light_pb2.LIGHT_METHOD_LOOKUP, pb.LookupResponse),
    "Nearest": (light_pb2.LIGHT_METHOD_NEAREST, pb.NearestResponse),
    "Fetch": (light_pb2.LIGHT_METHOD_FETCH, pb.FetchChunk),
    "ListToolchains": (light_pb2.LIGHT_METHOD_LIST_TOOLCHAINS, pb.ListToolchainsResponse),
    "GetOwn": (light_pb2.LIGHT_METHOD_GET_OWN, pb.GetOwnResponse),
    "PutOwn": (light_pb2.LIGHT_METHOD_PUT_OWN, pb.PutOwnResponse),
    "NoteUses": (light_pb2.LIGHT_METHOD_NOTE_USES, pb.NoteUsesResponse),
}


def deadline_of(timeout_s: Optional[float]) -> Optional[float]:
    """By time.monotonic(). InvalidArgumentError for what is no time to wait."""
    seconds = _validate.timeout(timeout_s)
    return None if seconds is None else time.monotonic() + seconds


def seconds_left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def wedged() -> KilnError:
    return WedgedError("the daemon accepts connections but does not answer: it is stopped, stuck or starved")


def too_late() -> KilnError:
    return DeadlineExceededError("the timeout passed before the daemon answered")


def cancelled() -> KilnError:
    return CallCancelledError("the call was cancelled")


def request_frame(number: int, method: str, message: Any, deadline: Optional[float]) -> bytes:
    """DeadlineExceededError if the deadline has passed."""
    left_s = seconds_left(deadline)
    if left_s == 0.0:
        raise too_late()
    timeout_ms = 0 if left_s is None else min(math.ceil(left_s * 1e3), _TIMEOUT_MS_MAX)
    return frame(number, timeout_ms, _METHODS[method][0], message.SerializeToString())


def cancel_frame(number: int) -> bytes:
    return frame(number, 0, light_pb2.LIGHT_METHOD_CANCEL, b"")


def result(method: str, code: int, body: bytes) -> Any:
    """The response. KilnError."""
    if code:
        raise _wire.rpc_error(code, body)
    try:
        return _METHODS[method][1].FromString(body)
    except Exception as error:  # protobuf's own
        reraise_from_handler(error)
        raise InternalError(f"the daemon's answer to {method} cannot be read") from None


class Connection:
    """For one thread at a time, but for cancel(). Of no use in a forked child, where it is closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        """KilnError where there is no daemon, within the endpoint's connect_s."""
        self.path, self._socket = endpoint.connect()
        self._process = os.getpid()
        self._quiet_s = endpoint.answer_s / 2
        self._is_cancelled = False
        self._last = 0
        self._room = memoryview(bytearray(_RECEIVE_BYTES))
        self._in = bytearray()
        self._out = bytearray(PREAMBLE)
        self._methods: Dict[int, str] = {}  # of requests in flight, by number
        self._answers: Dict[int, Tuple[int, bytes]] = {}  # that nobody has asked for yet
        self._unwanted: Set[int] = set()  # requests in flight whose answers nobody takes
        _process.reset_in_children(self)
        self._socket.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._socket)

    def reset_after_fork(self) -> None:
        self._socket.close()

    def cancel(self) -> None:
        """Ends the call under way on another thread: CallCancelledError there."""
        self._is_cancelled = True
        self.close()

    def close(self) -> None:
        """The daemon cancels what is in flight. Wakes the thread that waits for it."""
        with suppressed(OSError):
            # Also in children, which have the socket, too.
            if os.getpid() == self._process:
                self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def is_reusable(self) -> bool:
        """Nothing is under way, and the daemon has not hung up."""
        try:
            while self._receive():
                self._sort()  # of what was told
        except (OSError, KilnError) as error:
            reraise_from_handler(error)
            return False
        return self.is_quiet

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way."""
        return not (self._methods or self._answers or self._in or self._out or self._is_cancelled)

    def start(self, method: str, message: Any, deadline: Optional[float]) -> int:
        """Makes a request. Its number."""
        number = self._last = self._last + 1
        asked = request_frame(number, method, message, deadline)
        self._methods[number] = method
        self._out += asked
        return number

    def push(self) -> None:
        """Sends what the socket takes now. KilnError."""
        self._move(0.0)

    def tell(self, method: str, message: Any) -> None:
        """Goes along with the next request. Nobody takes the answer."""
        self._last += 1
        self._out += request_frame(self._last, method, message, None)

    def call(self, method: str, message: Any, deadline: Optional[float]) -> Any:
        """The answer. KilnError; WedgedError where the daemon shows no sign of life for answer_s meanwhile."""
        number = self.start(method, message, deadline)
        try:
            self.wait(deadline, number)
        except KilnError:
            self._unwanted.add(number)
            raise
        return self.take(number)

    def take(self, number: int) -> Any:
        """An answer that is here. KilnError."""
        return result(self._methods.pop(number), *self._answers.pop(number))

    def wait(self, deadline: Optional[float], number: int = 0) -> int:
        """Waits for the answer to that request, or to any. The number. DeadlineExceededError, WedgedError; UnavailableError where the
        daemon is gone."""
        silences = 0
        while True:
            self._sort()
            if self._answers and number in (0, *self._answers):
                return number or next(iter(self._answers))
            left_s = seconds_left(deadline)
            pause_s = self._quiet_s / 2 if silences else self._quiet_s
            if self._move(pause_s if left_s is None else min(pause_s, left_s)):
                silences = 0
            elif left_s is not None and left_s <= pause_s:
                raise too_late()
            elif silences == 2:
                raise wedged()
            else:
                # Twice: where this process itself was held up, the first time may be over before the daemon had any of it.
                silences += 1
                self._unwanted.add(self.start("Lookup", pb.LookupRequest(), None))

    def greet(self, within_s: float) -> None:
        """Asks for a sign of life. WedgedError; UnavailableError."""
        try:
            self.call("Lookup", pb.LookupRequest(), time.monotonic() + within_s)
        except DeadlineExceededError:
            raise wedged() from None

    def _sort(self) -> None:
        """Takes whole answers out of what has come."""
        while len(self._in) >= ANSWER.size:
            length, number, code = ANSWER.unpack_from(self._in)
            if len(self._in) < _COUNTED + length:
                return
            body = bytes(memoryview(self._in)[ANSWER.size:_COUNTED + length])
            del self._in[:_COUNTED + length]
            if number in self._unwanted:
                self._unwanted.discard(number)
                self._methods.pop(number, None)
            elif number in self._methods:
                self._answers[number] = (code, body)

    def _move(self, within_s: float) -> bool:
        """Sends what the socket takes, and waits for an answer or for room. False: neither came in that time."""
        try:
            self._send()
            return bool(self._poll(within_s)) and (self._receive() or self._send())
        except OSError as error:
            reraise_from_handler(error)
            raise self._gone() from None

    def _poll(self, within_s: float) -> Any:
        if self._socket.fileno() < 0:
            raise self._gone()
        self._poller.modify(self._socket, select.POLLIN | (select.POLLOUT if self._out else 0))
        return self._poller.poll(min(math.ceil(within_s * 1e3), _POLL_MS_MAX))

    def _send(self) -> bool:
        try:
            sent = self._socket.send(self._out, socket.MSG_NOSIGNAL) if self._out else 0
        except BlockingIOError:
            return False
        del self._out[:sent]
        return sent > 0

    def _receive(self) -> bool:
        try:
            received = self._socket.recv_into(self._room)
        except BlockingIOError:
            return False
        if not received:
            raise self._gone()
        self._in += self._room[:received]
        return True

    def _gone(self) -> KilnError:
        if self._is_cancelled:
            return cancelled()
        if os.getpid() != self._process:
            return UnavailableError("this process was forked from the one that opened the connection")
        return UnavailableError(f"the daemon on {self.path} went away")
