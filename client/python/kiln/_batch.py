"""Many kernels at once over one connection."""

from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple, Union

from kiln import _calls, _wire
from kiln._connection import IN_FLIGHT_MAX, Connection
from kiln._hot import HotReader
from kiln._signals import reraise_from_handler
from kiln.artifact import Artifact
from kiln.errors import CallCancelledError, DeadlineExceededError, KilnError, UnavailableError
from kiln.request import CompileRequest

_Answer = Tuple[int, Union[Artifact, KilnError]]
_END: Tuple[int, Any] = (-1, None)


class Batch:
    """For one thread, once. take: gives a connection, when the first request needs one. deadline: a time.monotonic() for all requests."""

    def __init__(self, take: "Callable[[], Connection]", hot: HotReader, requests: Iterable[CompileRequest], deadline: Optional[float],
                 in_flight: int) -> None:
        self.connection: Optional[Connection] = None
        self._take = take
        self._hot = hot
        self._requests = enumerate(requests)
        self._deadline = deadline
        self._in_flight = min(in_flight, IN_FLIGHT_MAX)
        self._indices: Dict[int, int] = {}  # by the request's number

    def answers(self) -> Iterator[_Answer]:
        """Yields each request's answer as it comes. If something ends the batch early, raises it after the requests in flight are
        answered. A signal handler's exception is raised at once."""
        try:
            while True:
                yield from self._fill()
                if not self._indices:
                    return
                yield from self._next()
        except Exception as why:
            reraise_from_handler(why)
            for index in self._indices.values():
                yield index, why if isinstance(why, KilnError) else CallCancelledError("the requests came to an early end")
            raise

    def _fill(self) -> Iterator[_Answer]:
        """Makes requests up to the limit. What the hot directory has, what is not a request, or comes too late, is answered at once."""
        while len(self._indices) < self._in_flight:
            index, request = next(self._requests, _END)
            if index < 0:
                return
            if found := self._hot.find(request):
                if self.connection is not None:
                    self.connection.push()  # what is missing compiles meanwhile
                yield index, found
                continue
            self.connection = self.connection or self._take()
            try:
                number = self.connection.start("Compile", _wire.request_message(request), self._deadline)
            except KilnError as error:
                yield index, error
                continue
            self._indices[number] = index

    def _next(self) -> Iterator[_Answer]:
        assert self.connection is not None
        try:
            number = self.connection.wait(self._deadline)
        except DeadlineExceededError as error:
            late, self._indices = self._indices, {}
            for index in late.values():
                yield index, error.with_traceback(None)
            return
        index = self._indices[number]
        answer = self._answer(self.connection, number)
        del self._indices[number]
        yield index, answer

    def _answer(self, connection: Connection, number: int) -> Union[Artifact, KilnError]:
        """UnavailableError: the daemon is gone."""
        try:
            return _calls.run(_calls.whole(_wire.artifact(connection.take(number))), connection.call, self._deadline)
        except UnavailableError:
            raise
        except KilnError as error:
            return error.with_traceback(None)  # the frames would keep the caller alive
