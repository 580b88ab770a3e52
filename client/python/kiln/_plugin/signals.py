"""What a signal's handler raises: it is the program's, to leave a loop with, and not for Kiln to swallow."""

import inspect
from types import FrameType


def from_handler(error: BaseException) -> bool:
    """Whether a signal's handler has raised it, in the middle of what raises it here. Everything else is a failure of Kiln's own.

    Nothing marks such an exception, but for one thing: Python hands a handler the frame that it interrupts, and no other function is
    given the frame of the one that it is seen to be called by. A handler that is not written in Python is not known by that, nor one
    whose exception something on its way has turned into another.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _is_given(trace.tb_next.tb_frame, trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_given(frame: FrameType, caller: FrameType) -> bool:
    names, rest, _, values = inspect.getargvalues(frame)
    given = [values[name] for name in names if name in values]  # not what it has deleted
    return any(one is caller for one in (*given, *(values.get(rest, ()) if rest else ())))
