"""What a signal's handler raises: it is the program's, to leave a loop with, and not for Kiln to swallow."""

import contextlib
import functools
import inspect
import signal
from types import FrameType
from typing import Any, Iterator, Type


def from_handler(error: BaseException) -> bool:
    """Whether a signal's handler has raised it, in the middle of what raises it here. Everything else is a failure of Kiln's own.

    Nothing marks such an exception. But Python hands a handler the frame that it interrupts, and no other function is given the frame of
    the one that it is seen to be called by; and one that lets go of its arguments is known as long as it is the signal's. Neither tells of
    a handler that is not written in Python, nor of an exception that something on its way has turned into another.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:
        return False  # spares most callers the handlers
    handlers = {_code_of(handler) for handler in map(signal.getsignal, range(1, signal.NSIG)) if callable(handler)} - {None}
    while trace is not None and trace.tb_next is not None:
        frame = trace.tb_next.tb_frame
        if frame.f_code in handlers or _is_given(frame, trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def reraise_from_handler(error: BaseException) -> None:
    """Raises the error again if a signal's handler has raised it. First in every `except` that swallows or turns it."""
    if from_handler(error):
        raise error


@contextlib.contextmanager
def suppressed(*kinds: Type[Exception]) -> Iterator[None]:
    """As contextlib.suppress, but for what a signal's handler raises: a TimeoutError of the program's is an OSError, too."""
    try:
        yield
    except kinds as error:
        reraise_from_handler(error)


def _is_given(frame: FrameType, caller: FrameType) -> bool:
    names, rest, _, values = inspect.getargvalues(frame)
    given = [values[name] for name in names if name in values]  # not what it has deleted
    return any(one is caller for one in (*given, *(values.get(rest, ()) if rest else ())))


def _code_of(handler: Any) -> Any:
    """None where it has none."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(handler, "__code__", None) or getattr(getattr(handler, "__call__", None), "__code__", None)
