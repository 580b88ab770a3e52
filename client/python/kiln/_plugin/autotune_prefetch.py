"""The state of a thread that compiles ahead of an Autotuner. autotune.py starts the threads."""

import contextlib
import threading
from typing import Any, Iterator

_here = threading.local()


def is_ahead() -> bool:
    """Whether this thread compiles ahead, so that nobody waits for this kernel alone."""
    return getattr(_here, "turn", None) is not None


def is_broken_off() -> bool:
    """Whether this thread compiles ahead for a tuning that was broken off. Its calls are cancelled."""
    return is_ahead() and bool(_here.turns.is_broken_off)


def end_turn() -> None:
    """Lets another thread lower its kernel, since this one only waits for the daemon. BrokenOff if the tuning was broken off."""
    if is_ahead():
        _here.turn.close()
        _here.turns.check()


@contextlib.contextmanager
def turn(turns: Any, free: "contextlib.AbstractContextManager[Any]") -> Iterator[None]:
    """Marks this thread as compiling ahead while the block lasts, and holds `free` until end_turn()."""
    try:
        with contextlib.ExitStack() as _here.turn:
            _here.turns = turns
            _here.turn.enter_context(free)
            yield
    finally:
        _here.turn = None
