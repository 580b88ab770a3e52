"""Locks between processes, for which nobody waits for ever: whoever holds one may be stopped."""

import fcntl
import time

_PAUSE_S = 0.02


def lock_within(descriptor: int, seconds: float) -> bool:
    """Whether this process has the file for itself now, until it closes it. False at once where the file system has no locks."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        except OSError:
            return False
        time.sleep(_PAUSE_S)
