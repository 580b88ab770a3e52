"""One CompileStream call: a thread of gRPC's reads the requests, one of ours the answers."""

import queue
import threading
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple, Union

import grpc

from kiln import _wire
from kiln._link import Link, call_error, wedged
from kiln.artifact import Artifact
from kiln.errors import CallCancelledError, KilnError
from kiln.request import CompileRequest
from kiln.v1 import kernel_service_pb2 as pb

_Answer = Tuple[int, Union[Artifact, KilnError]]


class CompileStream:
    """Used from one thread, once."""

    def __init__(self, link: Link, requests: Iterable[CompileRequest], timeout_s: Optional[float], in_flight: int,
                 quiet_s: float) -> None:
        self._link = link
        self._requests = requests
        self._quiet_s = quiet_s
        self._slots = threading.Semaphore(in_flight)
        self._is_over = False
        self._waiting: Dict[int, None] = {}
        # Answers; None at the end; an exception of the caller's own iterable.
        self._arrived: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._call = link.compile_stream(self._messages(), timeout=timeout_s)
        threading.Thread(target=self._read, name="kiln-stream", daemon=True).start()

    def cancel(self) -> None:
        """Ends what is under way; without effect after the end."""
        self._is_over = True
        self._call.cancel()
        self._slots.release()  # the thread that reads the requests may wait for one

    def answers(self) -> Iterator[_Answer]:
        """Each request's, as it comes. Raises what ended the stream early, after what was in flight is answered."""
        while True:
            try:
                arrived = self._arrived.get(timeout=self._quiet_s)
            except queue.Empty:
                if self._link.shows_life(self._quiet_s):
                    continue
                arrived = wedged()
            if arrived is None:
                return
            if isinstance(arrived, BaseException):
                yield from self._end(arrived)
            else:
                yield arrived

    def _end(self, why: BaseException) -> Iterator[_Answer]:
        self.cancel()
        error = why if isinstance(why, KilnError) else CallCancelledError("the requests came to an early end")
        for index in list(self._waiting):
            yield index, error
        raise why

    def _messages(self) -> Iterator[Any]:
        try:
            for index, request in enumerate(self._requests):
                try:
                    message = _wire.request_message(request)
                except KilnError as error:
                    self._arrived.put((index, error))
                    continue
                self._slots.acquire()
                if self._is_over:
                    return
                self._waiting[index] = None
                yield pb.CompileStreamRequest(id=index, request=message)
        except Exception as error:  # the caller's iterable
            self._arrived.put(error)

    def _read(self) -> None:
        try:
            for answer in self._call:
                self._waiting.pop(answer.id, None)
                self._slots.release()
                self._arrived.put((answer.id, _answer(answer)))
            self._arrived.put(None)
        except grpc.RpcError as error:
            self._arrived.put(call_error(error))


def _answer(message: Any) -> Union[Artifact, KilnError]:
    if message.code != 0:
        return _wire.stream_error(message)
    try:
        return _wire.artifact(message.response)
    except KilnError as error:
        return error
