"""The state of a thread that compiles ahead of an Autotuner. autotune.py starts the threads."""

import collections
import contextlib
import threading
from typing import Any, Deque, Iterator

_here = threading.local()


class Turns:
    """A lock that threads get in the order in which they ask for it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_free = True
        self._waiting: "Deque[threading.Lock]" = collections.deque()

    def __enter__(self) -> None:
        mine = threading.Lock()
        with self._mutex:
            if self._is_free:
                self._is_free = False
                return
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._is_free = not self._waiting
            if self._waiting:
                self._waiting.popleft().release()


def is_ahead() -> bool:
    """Whether this thread compiles ahead, so that nobody waits for this kernel alone."""
    return getattr(_here, "turn", None) is not None


def lowerings() -> Any:
    """What the tuning has lowered for which this thread compiles ahead: a shared_lowering.Lowerings."""
    return _here.turns.lowerings


def is_broken_off() -> bool:
    """Whether this thread compiles ahead for a tuning that was broken off. Its calls are cancelled."""
    return is_ahead() and bool(_here.turns.is_broken_off)


def end_turn() -> None:
    """Lets another thread lower its kernel, since this one only waits for the daemon. BrokenOff if the tuning was broken off."""
    if is_ahead():
        _here.turn.close()
        _here.turns.check()


def let_others_lower() -> None:
    """Waits for the turns of threads that have asked for one, so that their kernels reach the daemon before this one's answer is taken in."""
    if is_ahead():
        with _here.free:
            pass


@contextlib.contextmanager
def turn(turns: Any, free: "contextlib.AbstractContextManager[Any]") -> Iterator[None]:
    """Marks this thread as compiling ahead while the block lasts, and holds `free` until end_turn()."""
    try:
        with contextlib.ExitStack() as _here.turn:
            _here.turns, _here.free = turns, free
            _here.turn.enter_context(free)
            yield
    finally:
        _here.turn = None
