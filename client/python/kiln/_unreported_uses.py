"""Hits in the hot directory that the daemon has not heard of. Does not import protobuf, and starts no thread.

The eviction has to know what is in use, so the daemon is told: together with each call of a client, by a hit that finds many waiting
or the first of them waiting for long, and when the process ends. What a killed process has not told is lost.
"""

import atexit
import os
import sys
import time
import weakref
from typing import Callable, Dict, Optional, Tuple

from kiln import _process
from kiln._signals import suppressed
from kiln.errors import KilnError
from kiln.sockets import PREAMBLE, Endpoint, frame

HOT, OWN = 1, 2  # ToldHits.Place
# As for clients in C++ (storage/base/limits.h).
_DUE_COUNT = 256
_DUE_S = 2.0
_BUDGET_S = 0.02
_HITS_MAX = 64  # that the daemon takes at once
_HIT_COUNT_MAX = 4096  # of each
_COUNT_MAX = 4096  # that the daemon takes at once
_AWAY_PAUSE_S = 30.0
_END_BUDGET_S = 0.1
_SAVED_S_MAX = 300.0  # what the daemon counts for a hit
_NOTE_USES = 9  # LIGHT_METHOD_NOTE_USES


class UnreportedUses:
    """Gathers hits, so that one message tells of many. Thread-safe. A hit may wait for the daemon, for 3 * _BUDGET_S at most; after that
    no hit does for _AWAY_PAUSE_S.

    tell: tells of what take() returns, when that is due; the default tells over a connection for that.
    """

    def __init__(self, endpoint: Endpoint, tell: Optional[Callable[[], None]] = None) -> None:
        self._endpoint = endpoint
        self._tell = tell or self._tell_or_pause
        self._not_before = 0.0
        self.reset_after_fork()
        _members.add(self)
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        """The parent's uses are the parent's to tell."""
        self._keys: "Dict[bytes, None]" = {}
        self._hits: "Dict[Tuple[int, str], Tuple[int, int, int]]" = {}  # by place and job: count, microseconds saved, bytes
        self._due_at = 0.0
        self._is_full = False  # of what one message can tell
        self._is_telling = False

    def add(self, *keys: bytes) -> None:
        """Uses of published files. Tells if that is due."""
        self._begin()
        if len(self._keys) < _COUNT_MAX:
            self._keys.update(dict.fromkeys(keys))
        self._tell_if_due()

    def add_hit(self, place: int, job: str, seconds: float, size: int) -> None:
        """A hit for the daemon's statistics. place: HOT or OWN. seconds: what the compile took. size: of what was read, in bytes."""
        self._begin()
        count, saved, read = self._hits.get((place, job), (0, 0, 0))
        if count or len(self._hits) < _HITS_MAX:
            self._hits[place, job] = count + 1, saved + int(min(max(0.0, seconds), _SAVED_S_MAX) * 1e6), read + size
        self._is_full = self._is_full or len(self._hits) >= _HITS_MAX or count + 1 >= _HIT_COUNT_MAX

    def take(self) -> bytes:
        """A NoteUsesRequest of what was added since this was last called; b"" for nothing."""
        keys, self._keys = self._keys, {}
        hits, self._hits = self._hits, {}
        self._is_full = False
        told = b"".join(b"\x0a\x20" + key for key in list(keys)[:_COUNT_MAX])  # each is field 1, of 32 bytes
        for (place, job), numbers in list(hits.items()):
            name = job.encode(errors="replace")
            one = b"\x0a" + _varint(len(name)) + name
            for field, number in enumerate((place, *numbers), 2):
                one += _varint(field << 3) + _varint(number)
            told += b"\x12" + _varint(len(one)) + one
        return told

    def tell(self, within_s: Optional[float] = None) -> bool:
        """Tells over a connection for that. False if the daemon does not take it; losing some is fine. Connecting, sending and the answer
        may each take within_s; None: as at the end of a process."""
        within_s = _END_BUDGET_S if within_s is None else within_s
        if not self._keys and not self._hits:
            return True
        with suppressed(KilnError, OSError):
            with self._endpoint.connect(within_s)[1] as connection:
                connection.settimeout(within_s)
                connection.sendall(PREAMBLE + frame(1, 0, _NOTE_USES, self.take()))
                return bool(connection.recv(1))  # it has read them
        return False

    def _begin(self) -> None:
        if not self._keys and not self._hits:
            self._due_at = time.monotonic() + _DUE_S
            _tell_at_the_end_of_a_child()

    def _tell_if_due(self) -> None:
        if not self._is_telling and (len(self._keys) >= _DUE_COUNT or self._is_full or time.monotonic() >= self._due_at):
            try:
                self._is_telling = True  # a signal's handler may find something, too
                self._tell()
            finally:
                self._is_telling = False

    def _tell_or_pause(self) -> None:
        if time.monotonic() >= self._not_before and not self.tell(_BUDGET_S):
            self._not_before = time.monotonic() + _AWAY_PAUSE_S


_members: "weakref.WeakSet[UnreportedUses]" = weakref.WeakSet()
_process_with_finalizer = 0


@atexit.register
def _tell_all() -> None:
    for member in list(_members):
        member.tell()


def _tell_at_the_end_of_a_child() -> None:
    """Children of multiprocessing end without atexit."""
    global _process_with_finalizer
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _process_with_finalizer != os.getpid():
        _process_with_finalizer = os.getpid()
        with suppressed(Exception):
            util.Finalize(None, _tell_all, exitpriority=0)


def _varint(number: int) -> bytes:
    """As protobuf writes it."""
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes(digits + bytes([number]))
