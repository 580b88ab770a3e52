"""Locks between processes, for which nobody waits for ever: whoever holds one may be stopped."""

import contextlib
import fcntl
import time
from typing import Iterator

from kiln._signals import from_handler, suppressed

_PAUSE_S = 0.02


@contextlib.contextmanager
def locked_within(descriptor: int, seconds: float) -> Iterator[bool]:
    """Whether this process has the file for itself while the block lasts. False at once where the file system has no locks.

    A lock belongs to the open file, of which a child has a copy that another thread forks meanwhile: closing this process's would
    leave the file locked for as long as that child lives. So it is taken back.
    """
    is_locked = _lock(descriptor, time.monotonic() + seconds)
    try:
        yield is_locked
    finally:
        if is_locked:
            with suppressed(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if from_handler(error):
                raise
            if not isinstance(error, BlockingIOError) or time.monotonic() >= deadline:
                return False
        time.sleep(_PAUSE_S)
