"""File locks between processes, with a limit on the wait: a stopped process may hold one."""

import contextlib
import fcntl
import time
from typing import Iterator

from kiln._signals import reraise_from_handler, suppressed

_PAUSE_S = 0.02


@contextlib.contextmanager
def locked_within(descriptor: int, seconds: float) -> Iterator[bool]:
    """Yields whether this process holds the lock. False at once where the file system has no locks.

    The lock is released explicitly. A child that another thread forks meanwhile inherits the open file, so closing it here
    would leave the file locked until that child ends.
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
            reraise_from_handler(error)
            if not isinstance(error, BlockingIOError) or time.monotonic() >= deadline:
                return False
        time.sleep(_PAUSE_S)
