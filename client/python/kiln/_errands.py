"""Does on a thread of Kiln's own what the main thread has to do in gRPC.

What a signal's handler raises comes out on the main thread, between any two of its instructions, so Ctrl-C may come in the middle of
gRPC's Python code. That does not survive it: a lock of the channel stays taken, or its thread is not started and believed to be, and then
no call ends any more, on any thread. Here the main thread waits outside of gRPC, where an exception may come at any time.
"""

import _thread
import queue
import threading
from typing import Any, Callable, Optional, TypeVar

from kiln import _process
from kiln.errors import UnavailableError

_T = TypeVar("_T")
_SECONDS_MAX = 20.0  # longer than a section waits for a fork


class Errands:
    """One for each process. Thread-safe: on other threads than the main one it does everything right there."""

    def __init__(self) -> None:
        self._errands: Optional[Any] = None
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        """The child has not got the thread."""
        _process.abandon(self._errands)
        self._errands = None

    def run(self, work: Callable[[], _T], undo: Optional[Callable[[_T], object]] = None) -> _T:
        """What `work` returns or raises. `undo` is for what it returns where an exception comes while it is waited for."""
        if not _is_main():
            return work()
        answer: Any = queue.SimpleQueue()
        self._add(work, answer)
        try:
            result, error = answer.get(timeout=_SECONDS_MAX)
        except queue.Empty:
            self._errands = None  # the next have another thread
            raise UnavailableError("gRPC does not answer in this process") from None
        except BaseException:
            if undo is not None:
                undo_it = undo
                self._add(lambda: undo_it(answer.get_nowait()[0]), queue.SimpleQueue())
            raise
        if error is not None:
            raise error
        done: _T = result
        return done

    def post(self, work: Callable[[], object]) -> None:
        """Without waiting for it; after what has been asked for before."""
        if _is_main():
            self._add(work, queue.SimpleQueue())
        else:
            work()

    def _add(self, work: Callable[[], object], answer: Any) -> None:
        if self._errands is None:
            errands: Any = queue.SimpleQueue()
            # Not threading's, which has locks of its own to be interrupted in.
            _thread.start_new_thread(_work, (errands,))
            self._errands = errands
        self._errands.put((work, answer))


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _work(errands: Any) -> None:
    while True:
        work, answer = errands.get()
        try:
            answer.put((work(), None))
        except BaseException as error:
            answer.put((None, error))
        del work, answer  # and with them what they keep


errands = Errands()
