"""Many kernels at once over one connection: a call for each, so that each can be made again by itself after a fork."""

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
    """Used from one thread, once. `deadline` is a moment of time.monotonic(), for all of them."""

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
        """Each request's, as it comes. Raises what ended the batch early, after what was in flight is answered; what a
        signal's handler raises, at once."""
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
            self._pending_calls.clear()  # which lead back here

    def _fill(self) -> Iterator[_Answer]:
        """Starts as many as may be under way. What is no request is answered at once."""
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
        """None: a fork was in the way, and it is asked again. UnavailableError: there is nobody to ask any more."""
        pending_call = self._pending_calls[index]
        if pending_call.is_void:
            self._start(index)
            return None
        try:
            return self._link.whole(_wire.artifact(self._link.answer(pending_call)), self._deadline)
        except UnavailableError:
            raise
        except KilnError as error:
            return error.with_traceback(None)  # whose frames lead to whoever gets it
