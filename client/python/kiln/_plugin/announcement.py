"""Lets one process of a user lower a kernel while the others wait, shortly, for what comes of it.

The process that lowers listens on an abstract Unix socket that is named for the user and the kernel. Another one finds the name
taken, connects, and hears when that connection ends: the first has kept the kernel, has given up, or has died. Nothing is left
behind, and only processes of one machine meet. A wait ends after _WAIT_S whatever happens. docs/adr/0062 has the reasons.
"""

import errno
import hashlib
import os
import select
import socket
import struct
import threading
import time
import weakref
from typing import Optional

from kiln import _process
from kiln._plugin import autotune_prefetch
from kiln._signals import reraise_from_handler, suppressed

_WAIT_S = 5.0
_PAUSE_S = 0.02
_WAITING_MAX = 1024
_CREDENTIALS = struct.Struct("3i")


class _Here(threading.local):
    """What this thread announces: a thread lowers one kernel at a time."""
    listener: "Optional[socket.socket]" = None


class _Listeners:
    """Those of all threads. A forked child closes its copies, which would keep the names after their end here."""

    def __init__(self) -> None:
        self.open: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        for listener in list(self.open):
            listener.close()


_here, _listeners = _Here(), _Listeners()


def waited(key: bytes) -> bool:
    """Whether another process or thread of this user lowered the kernel of that key, which it may have kept by now. Otherwise this
    thread has announced it, until end()."""
    end()
    name = f"\0kiln/{os.geteuid()}/{hashlib.sha256(key).hexdigest()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    _listeners.open.add(listener)
    try:
        listener.bind(name)
        listener.listen(_WAITING_MAX)
    except OSError as error:
        listener.close()
        reraise_from_handler(error)
        return error.errno == errno.EADDRINUSE and _waited_for(name)
    _here.listener = listener
    return False


def end() -> None:
    """Lets those go on who wait for the kernel that this thread has announced."""
    listener, _here.listener = _here.listener, None
    if listener is not None:
        listener.close()


def _waited_for(name: str) -> bool:
    deadline = time.monotonic() + _WAIT_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        if not _connects(connection, name):  # it does not listen yet, or has just ended
            return True
        ends = select.poll()
        ends.register(connection, select.POLLIN)
        while not ends.poll(_PAUSE_S * 1e3) and time.monotonic() < deadline and not autotune_prefetch.is_broken_off():
            pass
    return True


def _connects(connection: socket.socket, name: str) -> bool:
    with suppressed(OSError):
        connection.connect(name)
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return bool(_CREDENTIALS.unpack(raw)[1] == os.geteuid())
    return False
