"""Keeps forks and gRPC calls apart.

While a call is under way, gRPC's threads take and leave locks of its own. A child that is forked in such a moment has the locks
without the threads, and waits for them for ever; with older versions the parent itself may end by a signal. So a fork waits until
no call of Kiln's is in gRPC: new ones are held back, those under way are cancelled, and whoever made them makes them again when the
fork is over.

Nobody waits for ever. A fork waits for gRPC's own thread, which ends a cancelled call without anybody's help and takes no lock but
gRPC's and the gate's, and for sections, which wait for nothing. Neither needs a lock of Python code that the forking thread may
hold, nor that thread itself, which may be in a call: a signal's handler can fork anywhere. Whatever should go wrong with that costs
a second, and then the process forks as it would without a gate.
"""

import contextlib
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, Optional, Set

_FORK_WAITS_SECONDS_MAX = 1.0
_CALL_WAITS_SECONDS_MAX = 5.0


class Passage:
    """A call and what became of it. was_interrupted: a fork ended it, so it is to be made again."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.was_interrupted = False

    def interrupt(self) -> None:
        self.was_interrupted = True
        self.call.cancel()


class Gate:
    """One for each process. Thread-safe."""

    def __init__(self) -> None:
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        # Reentrant by default, for the handler of a signal that forks while its thread is in here.
        self._changed = threading.Condition()
        self._forks = 0
        self._inside: Set[int] = set()
        self._passages: Dict[Passage, None] = {}

    def start(self, start: Callable[[], Any], then: Optional[Callable[[], None]] = None) -> Passage:
        """Starts a call, after a fork that is under way. `then` is run when it has ended, on a thread of gRPC's."""
        with self.section():
            passage = Passage(start())

            def leave() -> None:
                self._leave(passage)
                if then is not None:
                    then()

            with self._changed:
                self._passages[passage] = None
            if not passage.call.add_callback(leave):
                leave()
        return passage

    @contextlib.contextmanager
    def section(self) -> Iterator[None]:
        """For what uses gRPC for a moment and waits for nothing: no fork begins before it is over."""
        me = threading.get_ident()
        with self._changed:
            if me not in self._inside:
                self._changed.wait_for(lambda: self._forks == 0, _CALL_WAITS_SECONDS_MAX)
            self._inside.add(me)
        try:
            yield
        finally:
            with self._changed:
                self._inside.discard(me)
                self._changed.notify_all()

    def before_fork(self) -> None:
        deadline = time.monotonic() + _FORK_WAITS_SECONDS_MAX
        me = threading.get_ident()
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._inside <= {me}, deadline - time.monotonic())
            passages = list(self._passages)
        for passage in passages:
            passage.interrupt()
        with self._changed:
            self._changed.wait_for(lambda: not self._passages, deadline - time.monotonic())

    def after_fork_in_parent(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def _leave(self, passage: Passage) -> None:
        with self._changed:
            self._passages.pop(passage, None)
            self._changed.notify_all()


gate = Gate()
# After gRPC is imported, for handlers of its own, where they are turned on, to find it idle: the last registered is run first.
os.register_at_fork(before=gate.before_fork, after_in_parent=gate.after_fork_in_parent, after_in_child=gate.reset_after_fork)
