"""Many kernels at once over one connection. Each is a call of its own, which can be made again after a fork."""

import queue
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple, Union

from kiln import _wire
from kiln._fork_guard import PendingCall
from kiln._link import Link, wedged
from kiln._signals import from_handler
from kiln.artifact import Artifact
from kiln.errors import CallCancelledError, KilnError, UnavailableError
from kiln.request import CompileRequest

_Answer = Tuple[int, Union[Artifact, KilnError]]
_END: Tuple[int, Any] = (-1, None)


class Batch:
    """For one thread, once. deadline: a time.monotonic() for all requests."""

    def __init__(self, link: Link, requests: Iterable[CompileRequest], deadline: Optional[float], in_flight: int,
                 quiet_s: float) -> None:
        self._link = link
        self._requests = enumerate(requests)
        self._deadline = deadline
        self._in_flight = in_flight
        self._quiet_s = quiet_s
        self._messages: Dict[int, Any] = {}
        self._pending_calls: Dict[int, PendingCall] = {}
        self._ended: "queue.SimpleQueue[int]" = queue.SimpleQueue()

    def answers(self) -> Iterator[_Answer]:
        """Yields each request's answer as it comes. If something ends the batch early, raises it after the calls in flight are
        answered. A signal handler's exception is raised at once."""
        try:
            while True:
                yield from self._fill()
                if not self._pending_calls:
                    return
                yield self._next()
        except Exception as why:
            if from_handler(why):
                raise
            for index in self._pending_calls:
                yield index, why if isinstance(why, KilnError) else CallCancelledError("the requests came to an early end")
            raise
        finally:
            for pending_call in self._pending_calls.values():
                pending_call.cancel()
            self._pending_calls.clear()  # breaks a reference cycle

    def _fill(self) -> Iterator[_Answer]:
        """Starts calls up to the limit. An item that is not a request is answered at once."""
        while len(self._pending_calls) < self._in_flight:
            index, request = next(self._requests, _END)
            if index < 0:
                return
            try:
                self._messages[index] = _wire.request_message(request)
            except KilnError as error:
                yield index, error
                continue
            self._start(index)

    def _start(self, index: int) -> None:
        pending_call = self._pending_calls[index] = PendingCall(lambda: self._ended.put(index))
        self._link.start(pending_call, "Compile", self._messages[index], self._deadline)

    def _next(self) -> _Answer:
        while True:
            try:
                index = self._ended.get(timeout=self._quiet_s)
            except queue.Empty:
                if not self._link.shows_life(self._quiet_s):
                    raise wedged() from None
                continue
            answer = self._answer(index)
            if answer is not None:
                del self._pending_calls[index], self._messages[index]
                return index, answer

    def _answer(self, index: int) -> "Union[Artifact, KilnError, None]":
        """None: a fork ended the call, and it is made again. UnavailableError: the daemon is gone."""
        pending_call = self._pending_calls[index]
        if pending_call.is_void:
            self._start(index)
            return None
        try:
            return self._link.whole(_wire.artifact(self._link.answer(pending_call)), self._deadline)
        except UnavailableError:
            raise
        except KilnError as error:
            return error.with_traceback(None)  # the frames would keep the caller alive
