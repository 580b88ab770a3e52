"""Whether this thread compiles ahead of an Autotuner, and what that asks of whoever compiles; autotune.py has the threads."""

import contextlib
import threading
from typing import Any, Iterator

_here = threading.local()


def is_ahead() -> bool:
    """Whether it does, so that nobody waits for this very kernel."""
    return getattr(_here, "turn", None) is not None


def is_broken_off() -> bool:
    """Whether it does and nobody wants the kernel any more: its calls are cancelled."""
    return is_ahead() and bool(_here.turns.is_broken_off)


def end_turn() -> None:
    """From now on this thread only waits for the daemon, and another may lower its kernel. BrokenOff where nobody wants it any more."""
    if is_ahead():
        _here.turn.close()
        _here.turns.check()


@contextlib.contextmanager
def turn(turns: Any, free: "contextlib.AbstractContextManager[Any]") -> Iterator[None]:
    """Compiles ahead while the block lasts, and holds `free` until end_turn()."""
    try:
        with contextlib.ExitStack() as _here.turn:
            _here.turns = turns
            _here.turn.enter_context(free)
            yield
    finally:
        _here.turn = None
