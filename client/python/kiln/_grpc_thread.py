"""Does on threads of Kiln's own what is to be done in gRPC for the main thread.

What a signal's handler raises comes out on the main thread, between any two of its instructions, so Ctrl-C may come in the middle of
gRPC's Python code. That does not survive it: a lock of the channel stays taken, or its thread is not started and believed to be, and then
no call ends any more, on any thread. Here the main thread waits outside of gRPC, where an exception may come at any time.
"""

import _thread
import contextlib
import itertools
import os
import queue
import threading
import time
from typing import Any, Callable, Optional, Tuple, TypeVar

from kiln import _process
from kiln.errors import UnavailableError

_T = TypeVar("_T")
_SECONDS_MAX = 20.0  # longer than a section waits for a fork
_PIECE_S = 0.025
_PIECES_MIN = 20


def waited(attempt: Callable[[], bool], seconds_max: float) -> bool:
    """Whether `attempt`, which gives other threads a turn, says so by then. It is asked often, however late it has become: where one more
    thread does not let go of the interpreter, the time passes without those that are waited for having had any of it."""
    deadline = time.monotonic() + seconds_max
    for number in itertools.count():
        if attempt():
            return True
        if number >= _PIECES_MIN and time.monotonic() >= deadline:
            return False
    raise AssertionError("it counts for ever")


class End:
    """What one thread waits for and another brings about, once. Not threading's: the way into a Condition is Python code, in which an
    exception leaves it taken."""

    def __init__(self) -> None:
        self.has_come = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def come(self) -> None:
        self.has_come = True
        self._lock.release()

    def wait(self, seconds_max: float) -> bool:
        """Whether it has come by then."""
        if not self.has_come and self._lock.acquire(timeout=seconds_max):
            self._lock.release()
        return self.has_come

    def wait_in_pieces(self, seconds_max: float) -> bool:
        """As waited(): for who concludes from it that nobody is at work any more."""
        return waited(lambda: self.wait(_PIECE_S), seconds_max)


class _Errand:

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: Optional[BaseException] = None
        self.end = End()

    def do(self) -> None:
        end = self.end
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        del self  # which the error's frames must not lead to: only the collector would end that
        end.come()

    def result(self) -> Any:
        """Once."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error
        return self._result


class _Line:
    """Errands that wait, and the thread that does one after the other."""

    def __init__(self) -> None:
        self._grpc_thread: Any = queue.SimpleQueue()
        self._thread = 0  # its number
        self._at_work: Optional[Tuple[int, float]] = None  # which thread is at an errand, and since when
        self._start()

    def add(self, errand: _Errand) -> None:
        """Where the thread does not come back from an errand, another goes on with those behind it."""
        at_work = self._at_work
        if at_work is not None and at_work[0] == self._thread and time.monotonic() - at_work[1] > _SECONDS_MAX:
            with contextlib.suppress(RuntimeError):  # it stays as it is
                self._start()
        self._grpc_thread.put(errand)

    def _start(self) -> None:
        # Not threading's, which has locks of its own to be interrupted in.
        _thread.start_new_thread(self._work, (self._thread + 1,))
        self._thread += 1

    def _work(self, number: int) -> None:
        while number >= self._thread:
            errand = self._grpc_thread.get()
            self._at_work = number, time.monotonic()
            errand.do()
            del errand  # and with it what it keeps
            if number >= self._thread:
                self._at_work = None


class Errands:
    """One after the other, on one thread. Thread-safe."""

    def __init__(self) -> None:
        self._line: Optional[_Line] = None
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        """The child has not got the thread."""
        _process.abandon(self._line)
        self._line = None

    def run(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises. Other threads than the main one do it themselves. Where an exception comes while it is waited for,
        it is done all the same."""
        if threading.get_ident() != threading.main_thread().ident:
            return work()
        errand = _Errand(work)
        self._add(errand)
        process = os.getpid()  # where a signal's handler forks meanwhile, nobody is at it in the child
        waited(lambda: errand.end.wait(_PIECE_S) or os.getpid() != process, _SECONDS_MAX)
        if not errand.end.has_come:
            self._line = None  # the next have another thread
            raise UnavailableError("gRPC does not answer in this process")
        result: _T = errand.result()
        return result

    def post(self, work: Callable[[], object]) -> None:
        """Without waiting for it, on any thread."""
        self._add(_Errand(work))

    def _add(self, errand: _Errand) -> None:
        line = self._line
        if line is None:
            line = self._line = _Line()
        line.add(errand)


errands = Errands()
# On a thread of their own: a call that is waited for may have to wait itself for a fork, which waits for these.
cancels = Errands()
